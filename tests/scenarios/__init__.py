"""Stories of several brokers, told as text and checked effect by effect."""
