"""The node as a member of its cluster: the newest image, and everything that follows it."""
