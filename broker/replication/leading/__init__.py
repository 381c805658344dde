"""The leader of a partition: its knowledge of the other replicas, and how the in-sync replicas change."""
