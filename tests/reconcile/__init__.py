"""The operator: its plans as values, and the whole of it against a real API server."""
