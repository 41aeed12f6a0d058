"""The APIs of the Kafka protocol that are served: one module per group of APIs.

Each function takes (context, version, request) and returns a response or a deferred one.
"""
