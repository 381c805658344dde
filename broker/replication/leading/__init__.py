"""What the leader of a partition knows of its other replicas, and how the in-sync replicas change."""
