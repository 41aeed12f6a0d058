"""Logs, metrics and probes: views of what a broker does, which decide nothing."""
