"""Client metrics subscriptions and the clients that push for them (KIP-714; Kafka's `ClientMetricsManager`).

Metrics of clients that a subscription asks for are kept for `/metrics`; others are dropped, as in a Kafka without a
receiver plugin. `org.apache.kafka.producer.record.send.rate` is `kafka_client_producer_record_send_rate` there. Its
labels are the id of the client, that of its instance, and the attributes of the number. All is bounded, as clients
choose names and labels.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from broker.config.client_metrics_configs import effective_client_metrics_configs, parse_match
from broker.membership.metadata_cache import MetadataCache
from broker.observe.metrics import Family, Labels, MetricKind, Metrics
from metadata.configs import ConfigsImage, ResourceType
from metadata.delta import MetadataDelta
from protocol.errors import (
    InvalidConfiguration,
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from protocol.otlp import MalformedMetricsError, Point, decode_points
from protocol.re2_patterns import InvalidPatternError, compile_pattern
from protocol.records.compression import Compression, DecompressionError, decompress
from protocol.records.crc import crc32c
from protocol.uuids import to_text

if TYPE_CHECKING:
    from broker.network.request import Request
    from storage.workers import Workers
    from timing.clock import Clock

PREFIX = "kafka_client_"
MOST_POINTS = 2_000
"""Numbers read of one push."""
MOST_SERIES = 20_000
MOST_NAMES = 1_000
MOST_ATTRIBUTES = 8
LONGEST_LABEL = 249  # a topic's name fits
INTERVALS_KEPT = 3
"""Push intervals after which a client that is silent is forgotten."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.]{0,199}")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_.]{0,99}")
_OWN_LABELS = ("client_id", "client_instance_id")


class Pushed(NamedTuple):
    """A number as it is kept; `name` is empty if it cannot have one."""

    name: str
    kind: MetricKind
    labels: Labels
    value: float
    is_delta: bool


def pushed(point: Point) -> Pushed:
    """Return the part of a number that is kept; any thread."""
    kind = MetricKind.COUNTER if point.is_sum else MetricKind.GAUGE
    return Pushed(_name(point, kind), kind, _labels(point), point.value, point.is_delta)


@dataclass(slots=True)
class _Client:
    labels: Labels
    kept_until_ms: float = 0.0
    series: dict[tuple[str, Labels], float] = field(default_factory=dict)


class PushedMetrics:
    """The last metrics of each client; first comes the client that has been silent longest."""

    def __init__(self, metrics: Metrics, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._most_clients = metrics.most.clients
        self._clients: OrderedDict[UUID, _Client] = OrderedDict()
        self._kinds: dict[str, MetricKind] = {}
        self._series = 0
        self.left_out = 0
        metrics.families.append(self.families)
        metrics.gauge(
            "odradek_client_metrics_series", "Numbers that clients have pushed and that are kept.", (), self._count
        )
        metrics.counter(
            "odradek_client_metrics_left_out_total",
            "Numbers that clients pushed and that are not kept: there are too many, or their names cannot be used.",
            (),
            lambda: self.left_out,
        )

    def take(self, instance_id: UUID, client_id: str, interval_ms: int, numbers: Sequence[Pushed]) -> None:
        """Keep what a client has pushed. A sum since the last push is added to what it pushed before."""
        self._forget_silent()
        client = self._clients.get(instance_id)
        if client is None:
            if len(self._clients) >= self._most_clients:
                self.left_out += len(numbers)
                return
            own = (client_id[:LONGEST_LABEL], to_text(instance_id))
            client = self._clients[instance_id] = _Client(tuple(zip(_OWN_LABELS, own, strict=True)))
        self._clients.move_to_end(instance_id)
        client.kept_until_ms = self._monotonic_ms() + INTERVALS_KEPT * interval_ms
        for number in numbers:
            if not self._keep(client, number):
                self.left_out += 1

    def _keep(self, client: _Client, number: Pushed) -> bool:
        base = number.name.removesuffix("_total")
        if not base or (base not in self._kinds and len(self._kinds) >= MOST_NAMES):
            return False
        if self._kinds.setdefault(base, number.kind) is not number.kind:
            return False
        key = (number.name, number.labels)
        if key not in client.series:
            if self._series >= MOST_SERIES:
                return False
            self._series += 1
        client.series[key] = number.value + (client.series.get(key, 0.0) if number.is_delta else 0.0)
        return True

    def _forget_silent(self) -> None:
        now_ms = self._monotonic_ms()
        for instance_id, client in list(self._clients.items()):
            if client.kept_until_ms <= now_ms:
                self._series -= len(client.series)
                del self._clients[instance_id]
        if not self._clients:
            self._kinds.clear()

    def _count(self) -> int:
        self._forget_silent()
        return self._series

    def families(self) -> list[Family]:
        """All that is kept, by metric."""
        self._forget_silent()
        rows: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
        for client in self._clients.values():
            for (name, labels), value in client.series.items():
                rows[name].append((client.labels + labels, value))
        kinds = self._kinds
        return [Family(kinds[name.removesuffix("_total")], name, "Pushed by clients.", of) for name, of in rows.items()]


def _name(point: Point, kind: MetricKind) -> str:
    """The metric's name for Prometheus; empty if it cannot have one."""
    if _NAME.fullmatch(point.name) is None:
        return ""
    name = PREFIX + point.name.removeprefix("org.apache.kafka.").replace(".", "_").lower()
    return f"{name.removesuffix('_total')}_total" if kind is MetricKind.COUNTER else name


def _labels(point: Point) -> Labels:
    """The attributes as labels; those that cannot be are left out."""
    found = {}
    for key, value in islice(point.attributes, MOST_ATTRIBUTES):
        label = key.replace(".", "_")
        if _LABEL.fullmatch(key) is not None and label not in _OWN_LABELS:
            found[label] = value[:LONGEST_LABEL]
    return tuple(sorted(found.items()))


logger = structlog.get_logger(__name__)

DEFAULT_INTERVAL_MS = 300_000
MAX_INSTANCES = 16_384
MAX_UNPACKED_BYTES = 16 << 20
RESERVED_IDS = (None, UUID(int=0), UUID(int=1))

ASK_AGAIN_AFTER = frozenset({ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type})
"""Errors after which a client may ask for its subscription again before the interval is over."""


@dataclass(slots=True)
class Instance:
    """One client, for as long as its connection lives; times are monotonic ms, of the last accepted request."""

    subscriptions_version: int
    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int
    last_get_ms: float = float("-inf")
    last_push_ms: float = float("-inf")
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.none


class ClientTelemetry:
    """The currently known clients, the last used at the end; at most `MAX_INSTANCES`."""

    def __init__(self, cache: MetadataCache, metrics: Metrics, clock: Clock, workers: Workers, max_bytes: int) -> None:
        self._clock = clock
        self._workers = workers.lane("client metrics")
        self.max_bytes = max_bytes
        self.pushes = 0
        self.throttled = 0
        self._cache = cache
        self._version = 0
        self._seen: ConfigsImage | None = None
        self._is_wanted = False
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()
        self._last_of: dict[object, UUID] = {}  # by connection, the last one that began there
        self._pushed = PushedMetrics(metrics, clock.monotonic_ms)
        group = "kafka_server_clientmetrics"
        metrics.gauge(f"{group}_instancecount", "Clients that have a subscription.", (), lambda: len(self._instances))
        metrics.counter(f"{group}_push_total", "Pushes of client metrics accepted.", (), lambda: self.pushes)
        metrics.counter(f"{group}_throttle_total", "Telemetry requests too early.", (), lambda: self.throttled)

    @property
    def is_wanted(self) -> bool:
        """Whether there is a subscription: only then do clients need to know of these requests."""
        configs = self._cache.image.configs
        if configs is not self._seen:
            self._seen, self._is_wanted = configs, bool(configs.names(ResourceType.CLIENT_METRICS))
        return self._is_wanted

    def follow(self, delta: MetadataDelta) -> None:
        """Let clients ask for their subscriptions again when one has changed."""
        if delta.touched("configs"):
            self._version += sum(kind == ResourceType.CLIENT_METRICS for kind, _ in delta.configs.changed)

    def connection_lost(self, connection: object) -> None:
        """Forget the client, so that it may push again as soon as it is back."""
        instance_id = self._last_of.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def subscription(self, ctx: Request, instance_id: UUID) -> Instance:
        """Return what the client must push. Raises ThrottlingQuotaExceeded if it asks again within its interval."""
        instance = self._instance(ctx, instance_id)
        now = self._clock.monotonic_ms()
        if now - max(instance.last_get_ms, instance.last_push_ms) >= instance.interval_ms:
            instance.last_get_ms = now
        elif instance.last_error not in ASK_AGAIN_AFTER:
            self.throttled += 1
            raise ThrottlingQuotaExceeded
        instance.last_error = ErrorCode.none
        return instance

    async def push(
        self,
        ctx: Request,
        instance_id: UUID | None,
        subscription_id: int,
        *,
        terminating: bool,
        compression: int,
        metrics: bytes,
    ) -> None:
        """Accept a client's metrics. Raises the KafkaError to refuse them with."""
        if instance_id is None or instance_id in RESERVED_IDS:
            raise InvalidRequest
        instance = self._instance(ctx, instance_id)
        try:
            self._check_push(ctx, instance, subscription_id, terminating=terminating)
            numbers = await self._read_metrics(compression, metrics, keep=bool(instance.metrics))
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = terminating
        instance.last_error = ErrorCode.none
        self.pushes += 1
        if numbers:
            self._pushed.take(instance_id, ctx.client_id or "", instance.interval_ms, numbers)

    def _check_push(self, ctx: Request, instance: Instance, subscription_id: int, *, terminating: bool) -> None:
        if instance.terminating:
            raise InvalidRequest
        now = self._clock.monotonic_ms()
        asked_since = instance.last_get_ms > instance.last_push_ms
        if asked_since or now - instance.last_push_ms >= instance.interval_ms:
            instance.last_push_ms = now
        elif not terminating:
            self.throttled += 1
            raise ThrottlingQuotaExceeded
        if subscription_id != instance.subscription_id:
            raise UnknownSubscriptionId

    async def _read_metrics(self, compression: int, metrics: bytes, *, keep: bool) -> list[Pushed]:
        """The numbers in what was pushed; none unless they are to be kept."""
        if compression not in Compression.__members__.values():
            raise UnsupportedCompressionType
        if len(metrics) > self.max_bytes:
            raise TelemetryTooLarge
        try:
            if not metrics:
                return []
            # Not on the loop: a few bytes may unpack to many.
            return await self._workers.call(partial(_read, Compression(compression), metrics, keep=keep))
        except (DecompressionError, MalformedMetricsError) as error:
            raise InvalidRecord from error

    def _instance(self, ctx: Request, instance_id: UUID) -> Instance:
        instance = self._instances.get(instance_id)
        if instance is None or instance.subscriptions_version != self._version:
            instance = self._instances[instance_id] = self._new_instance(ctx, instance_id)
            self._last_of[ctx.connection] = instance_id
        self._instances.move_to_end(instance_id)
        if len(self._instances) > MAX_INSTANCES:
            self._instances.popitem(last=False)
        return instance

    def _new_instance(self, ctx: Request, instance_id: UUID) -> Instance:
        attributes = {
            "client_instance_id": to_text(instance_id),
            "client_id": ctx.client_id or "",
            "client_software_name": ctx.connection.client_software[0],
            "client_software_version": ctx.connection.client_software[1],
            "client_source_address": ctx.connection.client_address,
            "client_source_port": str(ctx.connection.client_port),
        }
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        configs = self._cache.image.configs
        for name in configs.names(ResourceType.CLIENT_METRICS):
            values = effective_client_metrics_configs(configs.of(ResourceType.CLIENT_METRICS, name))
            try:
                is_wanted = _matches(parse_match(values["match"]), attributes)
            except InvalidConfiguration as error:  # as another release, or a controller of Kafka's, took it
                logger.warning("client metrics left out", subscription=name, error=error.message)
                continue
            if not is_wanted:
                continue
            wanted, own_interval = values["metrics"], values["interval.ms"]
            assert isinstance(wanted, tuple)
            assert isinstance(own_interval, int)
            metrics.update(wanted)
            interval_ms = min(interval_ms, own_interval)
        names = ("*",) if "*" in metrics else tuple(sorted(metrics))
        return Instance(
            subscriptions_version=self._version,
            metrics=names,
            interval_ms=interval_ms,
            subscription_id=_subscription_id(names, interval_ms, instance_id),
        )


def _read(compression: Compression, metrics: bytes, *, keep: bool) -> list[Pushed]:
    data = decompress(compression, metrics, MAX_UNPACKED_BYTES)
    return list(map(pushed, islice(decode_points(data), MOST_POINTS))) if keep else []


def _matches(patterns: dict[str, re.Pattern[str]], attributes: dict[str, str]) -> bool:
    return all(_is_match(pattern, attributes[name]) for name, pattern in patterns.items())


def _is_match(pattern: re.Pattern[str], text: str) -> bool:
    """Whether all of the text matches; by RE2 if it accepts the pattern, since Python's engine may never finish."""
    try:
        return compile_pattern(pattern.pattern).fullmatch(text) is not None
    except InvalidPatternError:
        return pattern.fullmatch(text) is not None


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    """The CRC-32C of what the client must push, and of its id (KIP-714), as a signed number."""
    unsigned = crc32c(f"{metrics}{interval_ms}".encode(), crc32c(instance_id.bytes))
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
