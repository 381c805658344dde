"""What a cluster agrees on, as an image that only records change; a delta tells what they changed (Kafka's `image`)."""
