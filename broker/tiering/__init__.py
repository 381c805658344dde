"""Tiered storage (KIP-405): copies of sealed segments in remote storage, what is known of them, and their removal."""
