"""The share coordinator (KIP-932): the state of share partitions, kept on `__share_group_state`."""
