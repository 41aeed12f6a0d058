"""The life of a broker process: how it starts, registers, works and ends."""
