"""Groups of the consumer rebalance protocol (KIP-848): the coordinator itself assigns the partitions.

A group is defined by its epochs. The group epoch rises with every change of members, subscriptions or topics; the
assignment epoch is the group epoch for which the target assignment was computed; each member's own epoch shows how far
it has moved towards the target. Unlike in a classic group, all of this is durable: every step is a record, and only
replay changes the state.
"""
