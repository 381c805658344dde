"""ListTransactions 0-2 (KIP-664, KIP-994, KIP-1152; Kafka's `TransactionStateManager.listTransactionStates`).

Patterns are RE2's, whose cost is bounded (Kafka uses RE2/J): with Python's own, a client could stall the node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2 import ListTransactionsRequest, ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState as ListedTransactionState

from broker.request_context import RequestContext
from coordinator.transaction.states import BY_WIRE_NAME
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from coordinator.transaction.transaction_metadata import TransactionMetadata
from metadata.acls import AclOperation, ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidRegularExpression
from protocol.re2_patterns import InvalidPatternError, Pattern, compile_pattern

DESCRIBE = AclOperation.DESCRIBE


@dataclass(frozen=True, slots=True)
class Filter:
    """The filters; an empty one lets everything pass."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    longer_than_ms: int
    pattern: Pattern | None

    def matches(self, transactional_id: str, metadata: TransactionMetadata, now_ms: int) -> bool:
        return (
            (not self.states or metadata.state.wire_name in self.states)
            and (not self.producer_ids or metadata.producer_id in self.producer_ids)
            and (self.longer_than_ms < 0 or now_ms - metadata.start_ms > self.longer_than_ms)
            and (self.pattern is None or self.pattern.fullmatch(transactional_id) is not None)
        )


def list_transactions(
    ctx: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    """Raises InvalidRegularExpression."""
    wanted = _filter(request)
    now_ms = ctx.local.clock.wall_ms()
    unknown = tuple(name for name in dict.fromkeys(request.state_filters) if name not in BY_WIRE_NAME)

    def answer(found: Iterable[list[ListedTransactionState]]) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            unknown_state_filters=unknown,
            transaction_states=tuple(
                state
                for state in sorted(chain.from_iterable(found), key=attrgetter("transactional_id"))
                if ctx.allows(DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id)
            ),
        )

    return ctx.coordinators.transactions.read_all(lambda state: _found(state, wanted, now_ms), answer)


def _filter(request: ListTransactionsRequest) -> Filter:
    return Filter(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        _compiled(request.transactional_id_pattern),
    )


def _compiled(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    try:
        return compile_pattern(pattern)
    except InvalidPatternError as error:
        raise InvalidRegularExpression(f"The pattern of transactional ids is invalid: {error}") from error


def _found(state: TransactionCoordinatorShard, wanted: Filter, now_ms: int) -> list[ListedTransactionState]:
    return [
        ListedTransactionState(
            transactional_id=transactional_id,
            producer_id=metadata.producer_id,
            transaction_state=metadata.state.wire_name,
        )
        for transactional_id, metadata in state.items()
        if wanted.matches(transactional_id, metadata, now_ms)
    ]
