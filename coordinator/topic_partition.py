"""A partition as the coordinators name it: by topic and index."""

TopicPartition = tuple[str, int]
