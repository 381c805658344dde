"""What asks a running Apache Kafka for the answers that unit tests hold Odradek to; run by hand (docs/design.md)."""
