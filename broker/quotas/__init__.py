"""Client quotas (KIP-13, KIP-124, KIP-219, KIP-546, KIP-599, KIP-612): which ones are set, and their enforcement."""
