"""gRPC between brokers: bulk replication, the controller session, and probes.

Shells only: they turn bytes and protobuf messages into events of the core and of the controller,
and effects into bytes and messages. Nothing is decided here.
"""
