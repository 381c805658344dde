"""Segments in remote storage (KIP-405): what is known of them, the port to stores, layouts, and the store on S3."""
