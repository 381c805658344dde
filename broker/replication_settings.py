"""From the configuration of a node to the settings of its replicas and the pace of the work on its logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.config.defs.node import RACK_AWARE_SELECTOR
from broker.config.structured import windows_of
from broker.replication.cluster_access import ReplicationSettings
from storage.cleaner.log_cleaner import CleanerConfig

if TYPE_CHECKING:
    from broker.background import Periodic
    from broker.config.broker_config import BrokerConfig, CurrentConfig
    from broker.replication.log_maintenance import LogMaintenance

INDEX_IDLE_MS = 60_000
"""Time between two searches for idle indexes; one not used since the last search is dropped."""


def settings_of_now(current: CurrentConfig) -> Callable[[], ReplicationSettings]:
    """Returns the settings of the configuration as it is now: they are asked for with every partition."""
    config = current.config
    settings = replication_settings(config)

    def now() -> ReplicationSettings:
        nonlocal config, settings
        if current.config is not config:
            config = current.config
            settings = replication_settings(config)
        return settings

    return now


def replication_settings(config: BrokerConfig) -> ReplicationSettings:
    """The settings of followers and leaders."""
    return ReplicationSettings(
        lag_time_max_ms=config.integer("replica.lag.time.max.ms"),
        fetchers=config.integer("num.replica.fetchers"),
        fetch_max_bytes=config.integer("replica.fetch.max.bytes"),
        fetch_response_max_bytes=config.integer("replica.fetch.response.max.bytes"),
        fetch_min_bytes=config.integer("replica.fetch.min.bytes"),
        fetch_wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
        fetch_backoff_ms=config.integer("replica.fetch.backoff.ms"),
        socket_timeout_ms=config.integer("replica.socket.timeout.ms"),
        from_last_tiered=config.boolean("follower.fetch.last.tiered.offset.enable"),
        rack_aware=config.optional_string("replica.selector.class") == RACK_AWARE_SELECTOR,
        quota_windows=windows_of(config, "replication."),
    )


def schedule_maintenance(maintenance: LogMaintenance, config: BrokerConfig, periodic: Periodic) -> None:
    """Let the work on the logs be done, each task at its configured interval."""

    def every(key: str, job: Callable[[], Awaitable[None]], *, first_ms: int | None = None) -> None:
        pause_ms = config.integer(key)
        periodic.every(pause_ms, key, job, first_ms=pause_ms if first_ms is None else min(first_ms, pause_ms))

    initial_ms = config.integer("log.initial.task.delay.ms")
    every("log.retention.check.interval.ms", maintenance.apply_retention, first_ms=initial_ms)
    every("log.flush.scheduler.interval.ms", maintenance.flush_dirty_logs, first_ms=initial_ms)
    every("log.flush.offset.checkpoint.interval.ms", maintenance.checkpoint_recovery_points, first_ms=initial_ms)
    every(
        "log.flush.start.offset.checkpoint.interval.ms", maintenance.checkpoint_log_start_offsets, first_ms=initial_ms
    )
    every("replica.high.watermark.checkpoint.interval.ms", maintenance.checkpoint_high_watermarks)
    every("producer.id.expiration.check.interval.ms", maintenance.expire_producers)
    periodic.every(INDEX_IDLE_MS, "drop idle indexes", maintenance.drop_idle_indexes)
    configure_maintenance(maintenance, config)


def configure_maintenance(maintenance: LogMaintenance, config: BrokerConfig) -> None:
    """Apply a configuration, from the cleaner's next log and the next expiry on."""
    maintenance.producer_expiration_ms = config.integer("producer.id.expiration.ms")
    if config.boolean("log.cleaner.enable"):
        maintenance.cleaner.configure(
            CleanerConfig(
                threads=config.integer("log.cleaner.threads"),
                dedupe_buffer_size=config.integer("log.cleaner.dedupe.buffer.size"),
                load_factor=config.double("log.cleaner.io.buffer.load.factor"),
                max_bytes_per_second=config.double("log.cleaner.io.max.bytes.per.second"),
                backoff_ms=config.integer("log.cleaner.backoff.ms"),
            )
        )
