"""The shells of the three pure machines, and what they talk through."""
