"""The registry as the rest of the node reaches it: whether it has listeners from the start, or is asked for later.

Light to import: all that answers is loaded with the first question, off the loop. Where the node has no listeners of a
registry, the test kit (`begin`) opens one on loopback.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from broker.node import Node
    from broker.registry.registry import Registry
    from broker.registry.server import RegistryServer
    from broker.registry.validation import Validation
    from broker.security.permissions import Permissions
    from protocol.errors import KafkaError

TOPIC = "schema.registry.kafkastore.topic"


class RegistryHost:
    """See `broker.node_state.RegistryPort`. `server` is the one that the settings ask for."""

    def __init__(self, node: Node, server: RegistryServer | None = None) -> None:
        self._node = node
        self._server = server
        self._registry: Registry | None = None
        self._validation: Validation | None = None
        self._lock = asyncio.Lock()
        node.registry = node.replicas.large_batches.schemas = self

    @property
    def urls(self) -> list[str]:
        return [] if self._server is None else self._server.urls

    @property
    def in_use(self) -> bool:
        topic = self._node.local.config.string(TOPIC)
        return self._registry is not None or self._node.cluster.cache.topic(topic) is not None

    async def begin_configured(self) -> None:
        """Answer at the listeners of the settings. Raises SecurityError."""
        if self._server is not None:
            await self._server.begin(self._node, await self._answering())

    async def begin(self, host: str = "127.0.0.1", port: int = 0) -> list[str]:
        registry = await self._answering()
        async with self._lock:
            if self._server is None:
                from broker.registry.server import Address, RegistryServer

                server = RegistryServer([Address("http", host, port)])
                await server.begin(self._node, registry)
                self._server = server
        return self.urls

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        return await self.ask_for(None, method, path, body, **query)

    async def ask_for(
        self, permissions: Permissions | None, method: str, path: str, body: Any = None, **query: str
    ) -> tuple[int, Any]:
        from broker.registry.calls import Asked
        from broker.registry.rights import Rights

        registry = await self._answering()
        target = f"{path}?{urlencode(query)}" if query else path
        answer = await registry.answer(Asked(method, target, body), Rights(permissions))
        return answer.status, answer.value

    async def wrong_schemas(self, topic: str, batch: memoryview) -> KafkaError | None:
        """See `broker.replication.batch_checks.SchemaCheck`."""
        if self._validation is None:
            await asyncio.to_thread(importlib.import_module, "broker.registry.validation")
            from broker.registry.validation import Validation

            self._validation = Validation(self._node, self.ask)
        return await self._validation.wrong_schemas(topic, batch)

    async def stop(self) -> None:
        """Finish the responses in flight, and close the ports."""
        if self._server is not None:
            await self._server.stop()

    async def _answering(self) -> Registry:
        """What answers, here or by another node."""
        async with self._lock:
            if self._registry is None:
                if self._server is None:
                    await asyncio.to_thread(importlib.import_module, "broker.registry.server")
                from broker.registry.forwarding import Forwarding
                from broker.registry.registry import Registry

                forwarding = Forwarding(self._node)
                self._registry = Registry(self._node, forwarding.send)
                forwarding.begin(self._registry)
            return self._registry
