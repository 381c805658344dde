"""Share groups on the node that leads a partition (KIP-932): which records are delivered to whom, and what came of it."""
