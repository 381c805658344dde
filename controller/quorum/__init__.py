"""The metadata log `__cluster_metadata-0` of a quorum with one voter, in the files of Kafka's KRaft (KIP-595)."""
