"""What this node knows of its cluster: the newest image, and everything that follows it."""
