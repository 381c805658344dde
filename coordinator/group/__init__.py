"""The group coordinator (Kafka's GroupMetadataManager, OffsetMetadataManager): groups, committed offsets."""
