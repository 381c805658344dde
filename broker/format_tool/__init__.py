"""`odradek format`: format the folders of `log.dirs` for a node, as `kafka-storage format` does."""
