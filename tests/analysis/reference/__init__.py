"""The tables once more, in plain Python over single samples, written from their definitions."""
