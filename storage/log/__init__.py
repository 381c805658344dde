"""One partition's log: appends, reads, flushes, retention, recovery (Kafka's UnifiedLog)."""
