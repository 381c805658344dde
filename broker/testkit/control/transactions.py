"""Transactions: their state and partitions; waits; an abort or a fence on demand."""

from __future__ import annotations

from functools import partial
from typing import Any

from broker.node import Node
from broker.testkit.control.endpoint import (
    DEFAULT_TIMEOUT_S,
    TIMEOUT,
    Changes,
    ControlError,
    Endpoints,
    Kind,
    Parameter,
    Values,
    look_at_coordinator,
    wait_until,
)
from broker.testkit.inspection import TransactionView, list_transactions, read_transaction
from coordinator.runtime.outcome import Outcome
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from protocol.errors import NotCoordinator
from protocol.topic_partition import by_topic

ENDPOINTS = Endpoints()

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
)
ID = Parameter("transactional_id", Kind.STRING, "the transactional id", required=True)


CLIENT = "the control interface"


@ENDPOINTS("GET /transactions", "All transactional ids.")
async def _list(node: Node, _values: Values) -> dict[str, Any]:
    now_ms = node.local.clock.wall_ms()
    found, unknown = await list_transactions(node)
    listed = [transaction_json(transaction, now_ms) for transaction in found]
    return {"transactions": listed, **({"unknown": unknown} if unknown else {})}


@ENDPOINTS("GET /transactions/{transactional_id}", "A transactional id; Dead if it does not exist.", ID)
async def _get(node: Node, values: Values) -> dict[str, Any]:
    found = await read_transaction(node, values["transactional_id"])
    return transaction_json(found, node.local.clock.wall_ms())


def transaction_json(found: TransactionView, now_ms: int) -> dict[str, Any]:
    """The transactional id; `open_for` is seconds, None if no transaction is open."""
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout": found.timeout_ms / 1000,
        "open_for": round(found.age_ms(now_ms) / 1000, 3) if found.is_open else None,
        "partitions": {topic: list(indexes) for topic, indexes in by_topic(found.partitions).items()},
    }


@ENDPOINTS(
    "POST /transactions/{transactional_id}/wait",
    "Wait until the transactional id is in a state; 408 if that takes too long.",
    ID,
    Parameter("state", Kind.STRING, "the state to wait for", required=True, choices=STATES),
    TIMEOUT,
)
async def _wait(node: Node, values: Values) -> dict[str, Any]:
    state, name = values["state"], values["transactional_id"]
    timeout_s = values.get("timeout", DEFAULT_TIMEOUT_S)
    found = await wait_until(
        partial(_look, node, name),
        lambda seen: seen.state == state,
        lambda seen: f"waited {timeout_s:g} s for state {state}: {_described(seen)}",
        timeout_s,
    )
    return transaction_json(found, node.local.clock.wall_ms())


async def _look(node: Node, transactional_id: str, changes: Changes) -> TransactionView | None:
    """See the transactional id; None while its coordinator does not tell it."""
    return await look_at_coordinator(
        node,
        changes,
        lambda: (node.coordinators.transactions.runtime,),
        lambda: read_transaction(node, transactional_id),
        lambda seen: seen.coordinator is not None,
    )


def _described(found: TransactionView | None) -> str:
    if found is None:
        return "its coordinator is loading, or does not answer"
    if not found.exists:
        return f"there is no transactional id {found.transactional_id}"
    left = ", ".join(f"{topic}-{index}" for topic, index in found.without_marker)
    waits = f", its markers missing in {left}" if left else ""
    return f"transactional id {found.transactional_id} is {found.state}, producer epoch {found.producer_epoch}{waits}"


# -- on demand


async def forget(node: Node, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id, if there is one, and forget the id."""
    found = await read_transaction(node, transactional_id)
    if found.is_ongoing:
        await _abort(node, {"transactional_id": transactional_id})
    elif found.is_prepared:
        await ended(node, transactional_id, DEFAULT_TIMEOUT_S)

    def forget(state: TransactionCoordinatorShard) -> Outcome[bool]:
        return state.forget(transactional_id)

    if not await node.coordinators.transactions.write(transactional_id, forget):
        raise ControlError(f"transactional id {transactional_id} is in use: it began another transaction", status=409)


@ENDPOINTS(
    "POST /transactions/{transactional_id}/abort",
    "Fence the producer and abort its open transaction; answers once its markers are written.",
    ID,
    TIMEOUT,
)
async def _abort(node: Node, values: Values) -> dict[str, Any]:
    """Fence the producer, whose open transaction is aborted for that; answer once it is."""
    name = values["transactional_id"]
    found = await _existing(node, name)
    if not found.is_ongoing:
        raise ControlError(
            f"transactional id {name} is {found.state}: there is no open transaction to abort", status=409
        )
    await _fence_once(node, found)
    found = await ended(node, name, values.get("timeout", DEFAULT_TIMEOUT_S))
    return transaction_json(found, node.local.clock.wall_ms())


async def ended(node: Node, transactional_id: str, timeout_s: float) -> TransactionView:
    """The transactional id once the markers of its transaction are written."""
    return await wait_until(
        partial(_look, node, transactional_id),
        lambda seen: not seen.is_prepared,
        lambda seen: f"waited {timeout_s:g} s for the end of the transaction: {_described(seen)}",
        timeout_s,
    )


@ENDPOINTS(
    "POST /transactions/{transactional_id}/fence",
    "Give the transactional id a new producer epoch, as Admin.fenceProducers does.",
    ID,
    TIMEOUT,
)
async def _fence(node: Node, values: Values) -> dict[str, Any]:
    """Do as `Admin.fenceProducers`: a new producer epoch, after an abort of what is open."""
    name = values["transactional_id"]
    found = await _existing(node, name)
    if found.is_ongoing:
        await _abort(node, values)
    await _fence_once(node, await _existing(node, name))
    return await _get(node, values)


async def _fence_once(node: Node, found: TransactionView) -> None:
    def fence(state: TransactionCoordinatorShard) -> Outcome[Any]:
        return state.init_producer_id(found.transactional_id, found.timeout_ms, None, CLIENT)

    await node.coordinators.transactions.write(found.transactional_id, fence)


async def _existing(node: Node, transactional_id: str) -> TransactionView:
    found = await read_transaction(node, transactional_id)
    if found.coordinator is not None:
        name = transactional_id
        raise NotCoordinator(f"broker {found.coordinator} coordinates transactional id {name}: ask that broker")
    if not found.exists:
        raise ControlError(
            f"transactional_id = {transactional_id!r}: there is no such transactional id",
            parameter="transactional_id",
            status=404,
        )
    return found
