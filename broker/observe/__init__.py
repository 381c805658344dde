"""A node as it is observed from outside: metrics, the HTTP port, the metrics that clients push."""
