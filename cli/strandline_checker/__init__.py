"""The checker of consistency: compares histories of clients with scans of logs.

Pure: reads lines, returns findings. A consumer's reads are no evidence of what a log holds, and
the outcome of a send that timed out is unknown, never failed.
"""
