"""What a cluster agrees on: the metadata store, and all that is kept in it."""
