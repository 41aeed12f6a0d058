"""The listener for clients of Kafka's wire protocol.

Stands in front of `broker_interface.Broker` and knows nothing behind it: no core, no
log, no gRPC. `server.start` opens a port; everything else is internal.
"""
