"""What tests share: real API servers and clusters, and waiting for conditions."""
