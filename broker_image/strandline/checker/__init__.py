"""The checker of consistency: histories of clients against scans of logs.

Pure: reads lines, returns findings. It trusts no client's memory of what it read, and takes a
timeout for unknown, never for failed.
"""
