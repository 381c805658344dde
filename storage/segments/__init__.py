"""One segment of a log: its `.log` file and its indexes (Kafka's LogSegment)."""
