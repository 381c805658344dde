"""Share groups (KIP-932): members that share the records of their topics.

How it works: as in consumer groups, the group epoch rises when members, subscriptions or topics change, and a target
assignment is made for it, at most once in an interval. A partition may be assigned to several members, so a member goes
to its target at once. A topic is assigned once the share coordinator has made a state for its partitions
(`initialization.py`).
"""
