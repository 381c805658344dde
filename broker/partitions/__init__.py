"""The partitions that a node hosts, and whoever waits for one of them."""
