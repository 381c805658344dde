"""Decides on what a cluster agrees on: requests become records of the metadata log (Kafka's `QuorumController`)."""
