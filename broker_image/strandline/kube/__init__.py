"""The API server as brokers and the operator use it: objects in, model values out.

Everything here reads with quorum and writes by compare-and-swap; nothing here decides.
"""
