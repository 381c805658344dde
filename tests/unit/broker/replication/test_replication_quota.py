"""Throttles of replication: which replicas, how much, and never those in sync."""

from __future__ import annotations

import pytest

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.membership.metadata_cache import MetadataCache
from broker.replication.cluster_access import ReplicationQuota, ReplicationSettings
from broker.replication_settings import replication_settings, settings_of_now
from metadata.configs import CLUSTER_DEFAULT, ConfigsImage, ResourceType
from metadata.image import MetadataImage
from metadata.maps import Map
from tests.doubles.clock import ManualClock
from timing.rate import Windows

NODE = 1
RATE = "leader.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"
WINDOWS = ReplicationSettings().quota_windows


class Throttle:
    def __init__(
        self, replicas: str, own: str | None = None, of_all: str | None = None, windows: Windows = WINDOWS
    ) -> None:
        self.clock = ManualClock()
        self.cache = MetadataCache()
        self.quota = ReplicationQuota("leader", NODE, self.cache, self.clock.monotonic_ms, windows)
        self.set(replicas, own, of_all)

    def set(self, replicas: str | None, own: str | None = None, of_all: str | None = None) -> None:
        given = {
            (ResourceType.TOPIC, "t"): {REPLICAS: replicas},
            (ResourceType.BROKER, str(NODE)): {RATE: own},
            (ResourceType.BROKER, CLUSTER_DEFAULT): {RATE: of_all},
        }
        configs = {
            resource: Map({name: value for name, value in those.items() if value is not None})
            for resource, those in given.items()
        }
        self.cache.image = MetadataImage(configs=ConfigsImage(Map(configs)))
        self.quota.follow(self.cache.image, ["t"])

    def holds_back(self, index: int = 0, *, in_sync: bool = False) -> bool:
        return self.quota.holds_back("t", index, in_sync=in_sync)


@pytest.mark.parametrize(
    ("replicas", "throttled"), [("*", [0, 1, 2]), ("0:1,1:2,2:1", [0, 2]), (" 1:1 ", [1]), ("", []), ("0:2", [])]
)
def test_the_topic_lists_the_replicas_of_this_node(replicas: str, throttled: list[int]) -> None:
    quota = Throttle(replicas).quota
    assert [index for index in range(3) if quota.is_throttled("t", index)] == throttled
    assert quota.is_active is bool(throttled)
    assert not quota.is_throttled("other", 0)


def test_leader_replication_throttled_rate_has_replicas_out_of_sync_wait() -> None:
    throttle = Throttle("0:1", own="1000")
    throttle.quota.record("t", 0, 1000)
    assert not throttle.holds_back()
    throttle.quota.record("t", 0, 1)
    assert throttle.holds_back()
    assert not throttle.holds_back(in_sync=True)
    assert not throttle.holds_back(1)
    throttle.clock.advance(1_100)
    assert not throttle.holds_back()


def test_the_rate_is_that_of_the_configured_windows() -> None:
    """With long windows a burst counts for longer."""
    throttle = Throttle("0:1", own="1000", windows=Windows(2, 10_000))
    throttle.quota.record("t", 0, 25_000)
    assert throttle.holds_back()
    throttle.clock.advance(15_000)
    assert throttle.holds_back()
    throttle.clock.advance(15_000)
    assert not throttle.holds_back()


def test_the_settings_are_kafkas() -> None:
    config = BrokerConfig.of({"replication.quota.window.num": "4", "replication.quota.window.size.seconds": "30"})
    assert replication_settings(config).quota_windows == Windows(4, 30_000)
    assert replication_settings(BrokerConfig.of({})).quota_windows == WINDOWS == Windows(11, 1_000)


def test_the_settings_are_those_of_the_configuration_as_it_is_now() -> None:
    current = CurrentConfig(BrokerConfig.of({"replica.fetch.max.bytes": "1000"}))
    now = settings_of_now(current)
    assert now() is now()
    current.config = BrokerConfig.of({"replica.fetch.max.bytes": "2000"})
    assert now().fetch_max_bytes == 2000


def test_only_what_goes_to_throttled_replicas_counts() -> None:
    throttle = Throttle("0:1", own="1000")
    throttle.quota.record("t", 1, 10_000)
    assert not throttle.holds_back()


def test_the_brokers_own_rate_precedes_that_of_all_and_there_may_be_none() -> None:
    throttle = Throttle("*", own=None, of_all="10")
    throttle.quota.record("t", 0, 500)
    assert throttle.holds_back()
    throttle.set("*", own="600", of_all="10")
    assert not throttle.holds_back()
    throttle.set("*")
    throttle.quota.record("t", 0, 1 << 40)
    assert not throttle.holds_back()
    throttle.set(None)
    assert not throttle.quota.is_active
