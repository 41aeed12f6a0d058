"""Strandline beside Apache Kafka on one machine, both up at once: `python -m bench.compare`."""
