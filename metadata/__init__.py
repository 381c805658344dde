"""A cluster's metadata as an image that only records change; a delta tells what they changed (Kafka's `image`)."""
