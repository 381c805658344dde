"""Why a consumer gets nothing, and what to do: rules over a view of the node.

A rule is a small pure function: it gets a situation, and yields what it finds there (`situations`). Rules do not know
of each other. They are in one list for each subject: `group_rules`, `reading_rules` (the partitions of a group),
`share_rules`, and `topic_rules` (transactional ids too); `explain` looks at the node, and asks them.
"""
