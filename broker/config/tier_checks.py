"""What tiered topics may have together, and what the settings of a node's remote storage must have (`LogConfig`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from broker.config.definition import Value, integer_of
from protocol.errors import InvalidConfiguration
from storage.append_types import AS_RETENTION

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig

STORE = "remote.log.storage.manager.class.name"

FOLDER, S3 = "folder", "s3"
STORES = {
    "folder": FOLDER,
    "s3": S3,
    "org.apache.kafka.server.log.remote.storage.LocalTieredStorage": FOLDER,
    "io.aiven.kafka.tieredstorage.RemoteStorageManager": S3,
}
"""What `remote.log.storage.manager.class.name` may be: our stores, and the classes that have the same layouts."""

FOLDER_KEY, BUCKET_KEY = "dir", "storage.s3.bucket.name"


def check_tiered(values: Mapping[str, Value], *, system_enabled: bool) -> None:
    """Check the configuration of a topic that has `remote.storage.enable`. Raises InvalidConfiguration."""
    if not system_enabled:
        raise InvalidConfiguration(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    policies = values["cleanup.policy"]
    assert isinstance(policies, tuple)
    if "compact" in policies:
        raise InvalidConfiguration(
            "remote.storage.enable = true: expected cleanup.policy = delete, or an empty one. Compacted topics cannot "
            "be tiered."
        )
    for unit in ("bytes", "ms"):
        _check_retention(values, unit)


def _check_retention(values: Mapping[str, Value], unit: str) -> None:
    total, local = integer_of(values, f"retention.{unit}"), integer_of(values, f"local.retention.{unit}")
    if total > -1 and local != AS_RETENTION and (local == -1 or local > total):
        raise InvalidConfiguration(
            f"local.retention.{unit} = {local}: expected at most retention.{unit}, {total}, or -2 for the same"
        )
    kept = total if local == AS_RETENTION else local
    if values["remote.log.copy.disable"] and kept != total:
        raise InvalidConfiguration(
            f"remote.log.copy.disable = true: expected the same local.retention.{unit} and retention.{unit}, as "
            f"nothing is copied to remote storage any more; they are {local} and {total}"
        )
    lag = integer_of(values, f"remote.copy.lag.{unit}")
    if kept > -1 and lag > kept:
        raise InvalidConfiguration(f"remote.copy.lag.{unit} = {lag}: expected at most the local retention, {kept}")


def check_switched_off(values: Mapping[str, Value]) -> None:
    """Check the configuration of a topic that is tiered no longer. Raises InvalidConfiguration."""
    if not values["remote.log.delete.on.disable"]:
        raise InvalidConfiguration(
            "remote.storage.enable = false: what is in remote storage would be lost. Set "
            "remote.log.delete.on.disable = true as well if it shall be removed; or keep remote.storage.enable = true "
            "and set remote.log.copy.disable = true if it shall be kept, to be read."
        )


def under_prefix(config: BrokerConfig, prefix_key: str) -> dict[str, str]:
    """The settings of a plugin, without their prefix, which is itself a setting."""
    prefix = config.string(prefix_key)
    return {name.removeprefix(prefix): text for name, text in config.given.items() if name.startswith(prefix)}


def broken_rules_of_store(config: BrokerConfig) -> Iterator[str]:
    """What is wrong with the settings of a node's remote storage."""
    if not config.is_broker:
        return
    name = config.optional_string(STORE) or ""
    kind = STORES.get(name)
    if kind is None:
        plugins = ", ".join(each for each in STORES if "." in each)
        yield f"{STORE} = {name!r}: expected folder or s3, or a class with one of their layouts ({plugins})"
        return
    prefix_key = "remote.log.storage.manager.impl.prefix"
    key = FOLDER_KEY if kind == FOLDER else BUCKET_KEY
    if not under_prefix(config, prefix_key).get(key):
        what = "the folder that remote segments go to" if kind == FOLDER else "the name of a bucket"
        yield f"{config.string(prefix_key)}{key} = '': expected {what}"
