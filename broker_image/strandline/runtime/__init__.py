"""A broker's process: start, the shells of the pure machines, logs and metrics, stop."""

import os

# gRPC's own C code writes lines of text to stderr unless this is set before its first import;
# what they say about connections, the streams above them write as log lines of ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# And it forgets a connection when it ends, unless this is set (see `rpc.unknown_callers`).
os.environ.setdefault("GRPC_CHANNELZ_MAX_ORPHANED_NODES", "200")
