"""A node with nothing but its metadata, for the admin handlers: in memory, in virtual time, no sockets."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

from kio.schema.create_topics.v7.request import CreatableTopic

from broker.api.table import handler_of
from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.membership.auto_create import AutoTopicCreation
from broker.membership.config_schema import NodeConfigSchema
from broker.membership.metadata_cache import MetadataCache
from broker.membership.producer_ids import ProducerIds
from broker.membership.publisher import Follower
from broker.membership.standalone import StandaloneMetadata
from broker.network.request import ANONYMOUS, Principal
from broker.observe.client_telemetry import ClientTelemetry
from broker.observe.metrics import Metrics
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session_cache import FetchSessionCache
from broker.request_context import ClusterMetadata, LocalServices, RequestContext
from broker.security.delegation_tokens import Credentials, DelegationTokens
from broker.security.node_security import NodeSecurity
from broker.security.sources import Sources
from controller.brokers import Registration
from controller.configs import changed_records
from controller.decision import Decision, Surroundings
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol import uuids
from protocol.api import failure, messages
from protocol.api.table import API_BY_NAME
from protocol.errors import KafkaError
from protocol.metadata.brokers import Endpoint
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LoopWorkers
from timing.wheel import TimingWheel

DIRECTORY = UUID(int=1 << 100)


@dataclass(eq=False)
class FakePeer:
    listener_name: str = "PLAINTEXT"
    client_host: str = "10.0.0.7"
    client_address: str = "10.0.0.7"
    client_port: int = 50000
    principal: Principal = ANONYMOUS
    client_id: str | None = None
    client_software: tuple[str, str] = ("apache-kafka-java", "4.1.0")
    permissions: Any = None
    is_forwarded: bool = False

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
        fs.fsync_dir("/")
        static = BrokerConfig.of({"node.id": "1", **{name.replace("_", "."): value for name, value in config.items()}})
        clock, chance = ManualClock(), random.Random(7)
        services = LogServices(fs, clock, LoopWorkers(), chance, Shortages(clock.monotonic_ms))
        current, cache, metrics = CurrentConfig(static), MetadataCache(), Metrics()
        node = SimpleNamespace(
            replicas=SimpleNamespace(offline_of=lambda _: frozenset(), is_offline=lambda *_: False),
        )
        around = Surroundings(NodeConfigSchema(lambda: current.config), lambda: uuids.random_uuid(chance), 1)
        metadata = await StandaloneMetadata.open(services, "/data", 1, DIRECTORY, cache, around)
        current.config = static.with_dynamic(*cache.broker_configs(1))
        throttling = Throttling(current.config, clock.monotonic_ms)
        throttling.follow(cache.image.quotas)
        telemetry = ClientTelemetry(cache, metrics, clock, LoopWorkers(), 1 << 20)
        auto_topics = AutoTopicCreation(current, cache, metadata.port)
        sessions = FetchSessionCache(1000, clock.monotonic_ms, chance)
        credentials = Credentials(current, chance, clock.wall_ms, LoopWorkers())
        credentials.use(cache)
        known = credentials.find, credentials.salt
        sources = Sources(clock, chance, LoopWorkers(), *known)
        security = NodeSecurity(current, sources, TimingWheel(clock))
        share: Any = None  # no share group comes here
        peers: Any = None  # nobody asks other brokers
        node.metadata, node.controller = metadata, metadata.port
        node.cluster = ClusterMetadata("NfaQcBywSz--MiXDmlGZAQ", cache, metadata.log, auto_topics, peers)
        node.coordinators = SimpleNamespace(producer_ids=ProducerIds(metadata.allocate_producer_ids))
        tokens = DelegationTokens(current)
        node.local = LocalServices(
            1, current, clock, chance, metrics, throttling, sessions, telemetry, security, tokens, share
        )

        def configs_changed(delta: MetadataDelta, _image: MetadataImage) -> None:
            current.config = current.config.with_dynamic(*cache.broker_configs(1))
            telemetry.follow(delta)

        def quotas_changed(delta: MetadataDelta, _image: MetadataImage) -> None:
            if delta.touched("quotas"):
                throttling.follow(delta.quotas.changed)

        metadata.publisher.start([Follower("configs", configs_changed), Follower("quotas", quotas_changed)])
        listener = Endpoint(name="PLAINTEXT", host="broker.example", port=9092, security_protocol=0)
        registration = Registration(1, uuids.random_uuid(chance), [listener], (), None, [DIRECTORY])
        await metadata.lead(registration, current.config.integer("min.insync.replicas"))
        return cls(fs, node)

    def configs(self, resource_type: int, name: str) -> dict[str, str]:
        """What is set for a resource."""
        return dict(self.node.cluster.cache.image.configs.of(resource_type, name))

    async def set_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Set all of a resource's configurations, without any check."""

        def decide(image: MetadataImage) -> Decision[None]:
            resource = resource_type, name
            return Decision(list(changed_records(resource, image.configs.of(*resource), configs)), None)

        await self.node.controller.submit(decide)

    async def create(self, *topics: CreatableTopic) -> None:
        """Create topics, each of which can be created."""
        answer = await self.ask("create_topics", topics=topics, timeout=timedelta(seconds=1), validate_only=False)
        assert not [result for result in answer.topics if result.error_code]

    async def ask(self, api: str, version: int | None = None, **fields: Any) -> Any:
        """The handler's answer to the newest request with these fields, or its answer to its own KafkaError."""
        row = API_BY_NAME[api]
        handler = handler_of(row)
        request = messages.newest_request(row)(**fields)
        node = self.node
        ctx = RequestContext(
            node.cluster,
            node.controller,
            node.replicas,
            node.coordinators,
            node.local,
            self.peer,
            row.key,
            row.highest if version is None else version,
            1,
            "client",
        )
        if handler.prepare is not None:
            request = handler.prepare(ctx, request)
        try:
            answer = handler.handle(ctx, request)
            return await answer if inspect.isawaitable(answer) else answer
        except KafkaError as error:
            answer_of = handler.failed or partial(failure.failed, row)
            return answer_of(ctx, request, error)
