"""The listener that clients of Kafka's wire protocol talk to.

Stands in front of `broker_interface.Broker` and knows nothing behind it: no core, no
log, no gRPC. `server.start` opens a port; everything else is internal.
"""
