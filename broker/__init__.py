"""One node: listeners and connections, a handler per API, partitions, topics, metadata; `python -m broker` runs it."""
