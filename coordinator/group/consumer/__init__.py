"""Groups of the consumer rebalance protocol (KIP-848): the coordinator itself assigns the partitions.

A group is a set of epochs. The group epoch rises with every change of members, subscriptions or topics; the assignment
epoch says for which of them the target assignment was made; and each member's own epoch says how far it has come on
its way there. Unlike a classic group all of it is durable: every step is a record, and replay alone changes the state.
"""
