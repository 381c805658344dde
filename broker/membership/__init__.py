"""What this node knows of its cluster, and how it belongs to it: the newest image, and everything that follows it."""
