"""What can be observed of a node from outside: metrics, the HTTP port, the metrics that clients push."""
