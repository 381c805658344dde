"""The records of `__cluster_metadata`: what a cluster agrees on, as Kafka's controllers write it (KIP-500, KIP-631)."""
