"""Groups whose coordinator itself assigns: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071).

A group is defined by its epochs. The group epoch rises with every change of members, subscriptions or topics; the
assignment epoch is the group epoch for which the target assignment was computed; each member's own epoch shows how far
it has moved towards the target. Unlike in a classic group, all of this is durable: every step is a record, and only
replay changes the state.

What the three kinds have in common is here: the group (`group.py`), the groups of a shard and their topics
(`groups.py`), and what heartbeats consist of (`heartbeat.py`). `consumer/`, `share/` and
`streams/` have what differs.
"""
