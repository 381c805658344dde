"""Streams groups (KIP-1071): members that process the tasks of one topology.

How it works: the first member brings the topology, which all others must have too. From it and the topics that exist
`topology.py` decides how many tasks each subtopology has, and which internal topics are missing; those the broker
makes. The group epoch rises when members, their tags, topics or settings change; a target assignment is made for it by
`assignor.py`, at most once in an interval; and each member goes there in steps (`heartbeat.py`).
"""
