"""Segments in remote storage (KIP-405): stores, what is known of the segments in them, and reads from them."""
