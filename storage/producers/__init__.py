"""A log's knowledge of its producers (Kafka's ProducerStateManager)."""
