"""`odradek metadata`: look into the metadata log of a node that is stopped or running."""
