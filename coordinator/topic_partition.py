"""A partition as the coordinators name it, by topic and index: a bare tuple, made for each one of every request."""

TopicPartition = tuple[str, int]
