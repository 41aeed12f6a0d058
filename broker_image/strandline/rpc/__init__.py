"""gRPC between brokers: bulk replication, the controller session, and probes.

Shells only: bytes and protobuf messages become events of the core and of the controller,
their effects become bytes and messages again. Nothing is decided here.
"""
