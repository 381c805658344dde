"""The registry of a node: it answers requests if the node leads the topic, and has them answered by the leader if not.

Reading is as strict as writing: the leader answers both, so that who registers a schema at one node finds it at any
other. A request is sent on once; a node that is asked by another and does not lead answers that there is no leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from broker.registry import rest
from broker.registry import subjects as names
from broker.registry.calls import Answer, Asked, Call, Change, Defaults
from broker.registry.errors import Code, RegistryError
from broker.registry.rights import Rights
from broker.registry.schemas import Schemas
from broker.registry.state import State
from broker.registry.topic import ElsewhereError, SchemasTopic
from broker.testkit.control.budget import to_the_end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.node import Node

logger = structlog.get_logger(__name__)

LEVEL, MODES_CHANGE = "schema.registry.schema.compatibility.level", "schema.registry.mode.mutability"
MOST_TRIES = 10
"""How often a change is decided, while others write to the topic between the decision and its append."""


class Registry:
    """`forward` sends a request to the node that leads the topic; without it, only this node answers."""

    def __init__(self, node: Node, forward: Callable[[int, Asked, Rights], Awaitable[Answer]] | None = None) -> None:
        config = node.local.config
        self.topic = SchemasTopic(node)
        self.schemas = Schemas(node.base.seams.workers)
        self._defaults = Defaults(config.string(LEVEL).upper(), config.boolean(MODES_CHANGE), node.cluster.id)
        self._forward = forward

    async def answer(self, asked: Asked, rights: Rights, *, forwarded: bool = False) -> Answer:
        """Answer a request, whatever is wrong with it."""
        try:
            return Answer(200, await self._answer(asked, rights))
        except RegistryError as error:
            return failed(error)
        except ElsewhereError as error:
            if self._forward is None or forwarded:
                return failed(RegistryError(Code.NO_LEADER, f"This node does not lead: {error}"))
            return await self._forward(error.leader, asked, rights)
        except Exception:
            logger.exception("unexpected error in the schema registry", method=asked.method, target=asked.target[:200])
            return failed(RegistryError(Code.STORE_ERROR, "unexpected error: the broker's log has it"))

    async def _answer(self, asked: Asked, rights: Rights) -> Any:
        found = rest.find(asked)
        if found.row.writes:
            return await to_the_end(self._change(found, rights))  # its client may go away meanwhile
        return await found.row.handler(self._call(found, rights, await self.topic.state()))

    async def _change(self, found: rest.Found, rights: Rights) -> Any:
        for _ in range(MOST_TRIES):
            async with self.topic.exclusive() as state:
                change: Change = await found.row.handler(self._call(found, rights, state))
                if not change.records or await self.topic.write(change.records):
                    return change.answer
        raise RegistryError(
            Code.STORE_ERROR, f"Others write to {self.topic.name} all the time: no registry may but this"
        )

    def _call(self, asked: rest.Found, rights: Rights, state: State) -> Call:
        """Raises RegistryError if the user may not do it."""
        found = rest.with_alias(asked, state)
        if found.row.right is not None:
            rights.require(found.row.right, _subject_of(found))
        return Call(found.named, found.query, found.given, state, self.schemas, rights, self._defaults)


def _subject_of(found: rest.Found) -> str | None:
    return names.normalized(found.named["subject"]) if "subject" in found.named else None


def failed(error: RegistryError) -> Answer:
    return Answer(error.status, {"error_code": int(error.code), "message": str(error)})
