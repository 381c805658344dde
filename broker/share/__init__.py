"""Share groups where a partition is led (KIP-932): which records are delivered to whom, and what came of it."""
