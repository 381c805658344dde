"""An operator's questions to a broker through Kafka's listeners: why nothing is read, and a backup.

They are requests of our own (`protocol.api.table.OWN_TABLE`), so that they have what the listener has: TLS, logins,
ACLs (ALTER on the cluster), limits. What answers them is imported when it is first asked.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from kio.schema.errors import ErrorCode

from broker.config.broker_config import BrokerConfig
from broker.node import Node
from broker.request_context import RequestContext
from protocol.api.table import API_BY_NAME
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaStorage, PolicyViolation

if TYPE_CHECKING:
    from protocol.newer.admin import CreateBackupRequest, CreateBackupResponse, ExplainRequest, ExplainResponse

logger = structlog.get_logger(__name__)

FOLDER = "odradek.backup.folder"
KINDS = {"group": "explain_group", "topic": "explain_topic", "transaction": "explain_transaction"}
"""What is explained, and the function of `broker.testkit.explain`."""
TIER, TIER_VERIFY = "tier", "tier_verify"
"""What is told of tiered storage: how far it is, and whether the store has all that it should."""


def begin(node: Node) -> None:
    """Answer them from now on, where the node is a broker."""
    if node.local.config.is_broker:
        node.dispatcher.serve(API_BY_NAME["explain"], Explain(node).handle)
        node.dispatcher.serve(API_BY_NAME["create_backup"], CreateBackup(node).handle)


class Explain:
    """Answers `explain`, one request at a time: a topic's asks for every group."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._turn = asyncio.Lock()

    async def handle(self, _ctx: RequestContext, request: ExplainRequest) -> ExplainResponse:
        if request.kind not in (*KINDS, TIER, TIER_VERIFY):
            raise InvalidRequest(f"kind = {request.kind[:40]!r}: expected one of {', '.join(KINDS)}")
        from protocol.newer.admin import ExplainFinding, ExplainResponse

        async with self._turn:
            if request.kind in KINDS:
                rules = await _imported(self._node, "broker.testkit.explain")
                found = await getattr(rules, KINDS[request.kind])(self._node, request.name)
            else:
                tiers, tier = await _imported(self._node, "broker.tiering.inspection"), self._node.tier
                is_status = request.kind == TIER
                found = (
                    tiers.tier_status(tier, request.name) if is_status else await tiers.tier_verify(tier, request.name)
                )
        return ExplainResponse(
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            findings=tuple(
                ExplainFinding(severity=one.severity, rule=one.rule, text=one.text, advice=one.advice) for one in found
            ),
        )


class CreateBackup:
    """Answers `create_backup`, where a folder for backups is set; the client may go away meanwhile."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def handle(self, ctx: RequestContext, request: CreateBackupRequest) -> CreateBackupResponse:
        node, path = self._node, _place(self._node.local.config, request.path)
        from protocol.newer.admin import CreateBackupResponse

        logger.info("backup asked for", path=path, principal=str(ctx.connection.principal), client=ctx.client_id)
        snapshots = await _imported(node, "broker.testkit.control.snapshots")
        if node.changing.locked():
            raise InvalidRequest("another backup is being made or restored: ask again when it is over")
        try:
            made = await snapshots.take(node, path, must_be_new=True)
        except snapshots.ControlError as error:
            raise InvalidRequest(str(error)) from error
        except OSError as error:
            logger.warning("backup not made", path=path, error=str(error))
            raise KafkaStorage(f"the backup could not be written to {path}: {error.strerror or error}") from error
        return CreateBackupResponse(
            throttle_time=ZERO, error_code=ErrorCode.none, path=made["path"], size=made["bytes"]
        )


def _place(config: BrokerConfig, asked: str) -> str:
    """The path of the new backup. Raises PolicyViolation without a folder for backups, InvalidRequest elsewhere."""
    folder = config.optional_string(FOLDER)
    if folder is None:
        raise PolicyViolation(f"this broker makes no backups for its clients: its setting {FOLDER} names no folder")
    folder = os.path.normpath(folder)
    path = os.path.normpath(os.path.join(folder, asked))
    if os.path.dirname(path) != folder or "\0" in asked:
        raise InvalidRequest(f"path = {asked!r}: expected a name, which will be a folder in {folder} ({FOLDER})")
    return path


async def _imported(node: Node, name: str) -> Any:
    """A module, imported in a thread: it may take a while."""
    return await node.base.seams.workers.call(partial(importlib.import_module, name))
