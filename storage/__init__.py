"""One partition's log in Kafka's own files: appends, reads, recovery, retention, compaction; a node's log folders."""
