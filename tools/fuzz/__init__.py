"""Random requests to Kafka and to ours: `python -m tools.fuzz` prints what they answer differently."""
