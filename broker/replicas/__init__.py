"""The partitions that a node hosts, and the requests that wait for them."""
