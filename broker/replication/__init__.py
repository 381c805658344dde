"""The partitions of this node: what it appends, reads, leads and follows."""
