"""Why a consumer gets nothing, and what to do: rules over a view of the node.

A rule is a small pure function: it gets a situation (`situations.py`), and yields what it finds there (`finding.py`).
Rules do not know of each other. They are in one list for each subject: `group_rules`, `reading_rules` (the partitions
of a group), `topic_rules`, `transaction_rules` and `kit_rules`.
"""
