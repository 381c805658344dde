"""Committed offsets (Kafka's OffsetMetadataManager)."""
