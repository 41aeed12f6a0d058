"""A broker's process: start, the shells of the pure machines, logs and metrics, stop."""

import os

# gRPC's C code writes lines of text to stderr unless this is set before its first import.
# Our streams log what those lines say about connections.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# gRPC forgets a connection when it ends, unless this is set (see `rpc.unknown_callers`).
os.environ.setdefault("GRPC_CHANNELZ_MAX_ORPHANED_NODES", "200")
