"""Compaction (Kafka's LogCleaner): what to clean, the latest offset of each key, copying, swapping segments."""
