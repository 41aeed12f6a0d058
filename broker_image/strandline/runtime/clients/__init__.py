"""What a broker does for Kafka's clients, behind the listener."""
