"""What runs on the one event loop of a broker: its clock, drivers and tasks."""
