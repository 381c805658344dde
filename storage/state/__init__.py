"""Snapshots of all that a node has on disk, taken and restored while it runs (the test kit's, not a backup)."""
