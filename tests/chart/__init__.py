"""The chart: what it renders, and every rule of its CRDs on a real API server."""
