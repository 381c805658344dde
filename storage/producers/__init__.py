"""What a log knows about its producers (Kafka's ProducerStateManager)."""
