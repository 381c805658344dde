"""KIP-392: consumers read from an in-sync follower in their own rack (`replica.selector.class`)."""

from __future__ import annotations

from dataclasses import replace

from broker.replication.leading.leader_state import ConsumerPlace, preferred_replica
from metadata.brokers import ClusterImage
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol.metadata.brokers import Endpoint
from tests.unit.broker.partitions import NODE, broker
from tests.unit.broker.replication.leading.test_leader_state import Led

RACKS = {1: "a", 2: "b", 3: "b"}
LISTENERS = Map({"PLAINTEXT": Endpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)})


def preferred(led: Led, offset: int, rack: str, listener: str = "PLAINTEXT", fenced: int = 0) -> int | None:
    """The replica that a consumer of this rack is sent to."""
    brokers = {
        node: replace(broker(node, fenced=node == fenced), rack=of, listeners=LISTENERS) for node, of in RACKS.items()
    }
    image = MetadataImage(cluster=ClusterImage(Map(brokers)))
    return preferred_replica(image, NODE, led.leader, offset, ConsumerPlace(rack, listener))


async def test_kip_392_a_consumer_reads_from_the_in_sync_follower_of_its_rack_that_is_furthest() -> None:
    led = Led()
    led.append(3)
    led.fetched(2, 2)
    led.fetched(3, 3)
    assert preferred(led, 1, "b") == 3
    assert preferred(led, 1, "b", fenced=3) == 2


async def test_kip_392_a_consumer_in_the_leaders_rack_or_in_none_of_a_replica_reads_from_the_leader() -> None:
    led = Led()
    led.append(3)
    led.fetched(2, 3)
    led.fetched(3, 3)
    assert preferred(led, 1, "a") is None
    assert preferred(led, 1, "c") is None


async def test_kip_392_nobody_is_sent_to_a_follower_out_of_sync_without_the_offset_or_on_another_listener() -> None:
    led = Led(isr=(1, 2))
    led.append(3)
    led.fetched(2, 2)
    led.fetched(3, 2)
    assert preferred(led, 2, "b") == 2  # 3 is in the rack too, and not in sync
    assert preferred(led, 3, "b") is None
    assert preferred(led, 2, "b", listener="INTERNAL") is None
