"""The states of a transactional id, and from which each may be reached (Kafka's TransactionState).

- Empty: a producer but no transaction. Left when partitions are added, by an abort (transactions V2), or by expiry.
- Ongoing: partitions were added. Left by EndTxn, or by a fence: InitProducerId, or the transaction's timeout.
- PrepareEpochFence: the old producer is fenced. Left at once for PrepareAbort, so it is never in the log.
- PrepareCommit, PrepareAbort: decided; markers are being written. Left with the last marker.
- CompleteCommit, CompleteAbort: every marker is written. Left like Empty, or for Empty by InitProducerId.
- Dead: expired; its record is a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class TransactionState(IntEnum):
    """Kafka's TransactionState, numbered as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name, as DescribeTransactions and ListTransactions spell it."""
        return _WIRE_NAMES[self]


_WIRE_NAMES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
BY_WIRE_NAME: Mapping[str, TransactionState] = MappingProxyType({name: state for state, name in _WIRE_NAMES.items()})

_S = TransactionState
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open: a new one may start, and the id may expire."""

PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided; markers are being written."""

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        _S.EMPTY: AT_REST,
        _S.ONGOING: AT_REST | {_S.ONGOING},
        _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
        _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
        _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
        _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
        _S.DEAD: AT_REST,
        _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
    }
)
"""The states from which each may be entered."""
