"""A node with nothing but its metadata, for the admin handlers: in memory, in virtual time, no sockets."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Listener
from broker.handlers import handler_of
from broker.metadata import feature_updates
from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.resource_configs import Resource, ResourceConfigs
from broker.metadata.topics import Topics
from broker.monitoring.client_telemetry import ClientTelemetry
from broker.monitoring.metrics import Metrics
from broker.network.context import RequestContext
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.throttling import Throttling
from broker.security.scram_credentials import ScramCredentials
from protocol import messages
from protocol.api_table import API_BY_NAME
from protocol.errors import KafkaError
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LoopWorkers


@dataclass(eq=False)
class FakePeer:
    listener_name: str = "PLAINTEXT"
    client_host: str = "10.0.0.7"
    client_address: str = "10.0.0.7"
    client_port: int = 50000
    principal: str = "User:ANONYMOUS"
    client_software: tuple[str, str] = ("apache-kafka-java", "4.1.0")

    def spent_ms(self) -> float:
        return 0

    def throttle(self, throttle_ms: int) -> None:
        """The next request is read at once."""


@dataclass
class Rig:
    """`await Rig.open()`; `await rig.ask("create_topics", topics=(...))` answers as dispatch would."""

    fs: MemoryFileSystem
    node: Any
    peer: FakePeer = field(default_factory=FakePeer)

    @classmethod
    async def open(cls, fs: MemoryFileSystem | None = None, **config: str) -> Self:
        fs = fs or MemoryFileSystem()
        fs.mkdir("/data")
        static = BrokerConfig.of({"node.id": "1", **{name.replace("_", "."): value for name, value in config.items()}})
        store = await LocalMetadataStore.open(fs, "/data", LoopWorkers())
        configs = await ResourceConfigs.open(store, static)
        node = SimpleNamespace(
            node_id=1,
            cluster_id="NfaQcBywSz--MiXDmlGZAQ",
            config=configs.broker_config(static),
            clock=ManualClock(),
            random=random.Random(7),
            metrics=Metrics(),
            metadata=store,
            topics=await Topics.open(store),
            partitions=SimpleNamespace(offline_of=lambda _: frozenset()),
            resource_configs=configs,
            producer_ids=ProducerIds(store),
            features=await feature_updates.load(store),
            scram_credentials=await ScramCredentials.open(store),
            client_quotas=await ClientQuotas.open(store),
            advertised={"PLAINTEXT": Listener("PLAINTEXT", "PLAINTEXT", "broker.example", 9092)},
        )
        node.throttling = Throttling(node.client_quotas, node.config, node.clock.monotonic_ms)
        node.client_telemetry = ClientTelemetry(configs, node.metrics, 1 << 20)

        def reconfigure(_resource: Resource) -> None:
            node.config = configs.broker_config(node.config)

        configs.subscribe(reconfigure)
        return cls(fs, node)

    async def ask(self, api: str, version: int | None = None, **fields: Any) -> Any:
        """The handler's answer to the newest request with these fields, or its answer to its own KafkaError."""
        row = API_BY_NAME[api]
        handler = handler_of(api)
        request = messages.newest_request(row)(**fields)
        ctx = RequestContext(self.node, self.peer, row.key, row.highest if version is None else version, 1, "client")
        try:
            answer = handler.handle(ctx, request)
            return await answer if inspect.isawaitable(answer) else answer
        except KafkaError as error:
            own = getattr(handler, "error_response", None)
            if own is None:
                raise
            return own(ctx, request, error)
