"""Logs whose older segments are in remote storage (KIP-405): reads from there, and the store in a folder."""
