"""Protobuf and gRPC code generated from the .proto files beside it."""
