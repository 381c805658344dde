"""The partitions that a node hosts, and requests that wait for them."""
