"""The folders of `log.dirs`: which logs lie in them, how they are opened, moved and removed (Kafka's LogManager)."""
