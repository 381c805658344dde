"""What a cluster agrees on: the metadata store, and everything kept in it."""
