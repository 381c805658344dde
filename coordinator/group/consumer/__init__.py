"""Groups of the consumer rebalance protocol (KIP-848); `coordinator.group.modern` says how they work."""
