"""A broker process: start, the driver of the core, metrics, logs, and stop."""

import os

# gRPC's own C code writes lines of text to stderr unless told before it is first imported;
# what they tell about connections, the streams above them tell as log lines of ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# And it forgets a connection when it ends, unless told how many to remember (`rpc.strangers`).
os.environ.setdefault("GRPC_CHANNELZ_MAX_ORPHANED_NODES", "200")
