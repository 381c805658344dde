"""MetadataImage and MetadataDelta against plain dictionaries; a snapshot's records make the same image again."""

from __future__ import annotations

from typing import Any, Never
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.delta import ImageLoader, MetadataDelta
from metadata.difference import delta_to
from metadata.image import EMPTY, MetadataImage
from metadata.maps import Map
from metadata.snapshot import records_of
from metadata.topics import TopicsImage
from protocol.metadata.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from protocol.metadata.credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.metadata.topics import (
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.metadata.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

TOPIC = 2


def _id(number: int) -> UUID:
    return UUID(int=number)


def image_of(*records: Any, image: MetadataImage = EMPTY) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1, 0)


def partition(topic: int, index: int, **fields: Any) -> PartitionRecord:
    known: dict[str, Any] = {"replicas": (1,), "isr": (1,), "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return PartitionRecord(topic_id=_id(topic), partition_id=index, directories=(_id(9),), **(known | fields))


ORDERS = (TopicRecord(name="orders", topic_id=_id(1)), partition(1, 0), partition(1, 1))


def test_a_topic_is_found_by_name_and_by_id() -> None:
    topics = image_of(*ORDERS).topics
    topic = topics.get("orders")
    assert topic is not None
    assert topics.by_id(_id(1)) is topic
    assert (topic.partition_count, topic.replication_factor) == (2, 1)
    assert topics.get("other") is None
    assert topics.by_id(_id(2)) is None
    assert topics.by_id(None) is None


def test_a_partition_change_raises_the_partition_epoch_and_with_a_leader_the_leader_epoch() -> None:
    image = image_of(*ORDERS)
    image = image_of(PartitionChangeRecord(topic_id=_id(1), partition_id=1, isr=()), image=image)
    image = image_of(PartitionChangeRecord(topic_id=_id(1), partition_id=1, leader=1), image=image)
    one, other = image.topics.by_name["orders"].partitions[1], image.topics.by_name["orders"].partitions[0]
    assert (one.leader, one.leader_epoch, one.partition_epoch, one.isr) == (1, 1, 2, ())
    assert (other.leader_epoch, other.partition_epoch) == (0, 0)


def test_images_that_readers_hold_stay_as_they_were() -> None:
    before = image_of(*ORDERS, ConfigRecord(resource_type=TOPIC, resource_name="orders", name="a", value="1"))
    after = image_of(RemoveTopicRecord(topic_id=_id(1)), image=before)
    assert before.topics.get("orders") is not None
    assert dict(before.configs.of(TOPIC, "orders")) == {"a": "1"}
    assert after.topics.get("orders") is None
    assert not after.configs.of(TOPIC, "orders")


def test_a_topic_deleted_and_made_again_in_one_delta() -> None:
    before = image_of(*ORDERS)
    delta = MetadataDelta(before)
    delta.replay_all([RemoveTopicRecord(topic_id=_id(1)), TopicRecord(name="orders", topic_id=_id(2)), partition(2, 0)])
    after = delta.apply(9, 1, 0)
    assert after.topics.by_name["orders"].id == _id(2)
    assert after.topics.by_id(_id(1)) is None
    assert list(delta.topics.deleted) == [_id(1)]


def test_a_topic_made_and_deleted_in_one_delta_leaves_nothing() -> None:
    delta = MetadataDelta(EMPTY)
    delta.replay_all([*ORDERS, RemoveTopicRecord(topic_id=_id(1))])
    assert len(delta.apply(3, 1, 0).topics) == 0
    assert not delta.topics.deleted


def test_names_that_share_their_metrics_collide() -> None:
    image = image_of(TopicRecord(name="a.b", topic_id=_id(1)), TopicRecord(name="plain", topic_id=_id(2)))
    assert image.topics.colliding_with("a_b") == "a.b"
    assert image.topics.colliding_with("plain") is None
    image = image_of(RemoveTopicRecord(topic_id=_id(1)), image=image)
    assert image.topics.colliding_with("a_b") is None


def test_clear_elr_of_one_topic_and_of_all() -> None:
    image = image_of(*ORDERS, TopicRecord(name="t", topic_id=_id(2)), partition(2, 0, eligible_leader_replicas=(1,)))
    image = image_of(
        PartitionChangeRecord(topic_id=_id(1), partition_id=0, eligible_leader_replicas=(1,), last_known_elr=(1,)),
        image=image,
    )
    of_one = image_of(ClearElrRecord(topic_name="orders"), image=image)
    assert of_one.topics.by_name["orders"].partitions[0].elr == ()
    assert of_one.topics.by_name["t"].partitions[0].elr == (1,)
    assert image_of(ClearElrRecord(), image=image).topics.by_name["t"].partitions[0].elr == ()


def test_clear_elr_is_a_change_of_the_partitions_that_have_one() -> None:
    topic = (*ORDERS, partition(1, 2, last_known_elr=(1,), leader_epoch=3, partition_epoch=5))
    cleared = image_of(ClearElrRecord(topic_name="orders"), image=image_of(*topic)).topics.by_name["orders"].partitions
    assert [cleared[index].partition_epoch for index in range(3)] == [0, 0, 6]
    assert [cleared[index].leader_epoch for index in range(3)] == [0, 0, 3]


@pytest.mark.parametrize("name", ["orders", ""])
def test_clear_elr_of_a_topic_of_the_same_delta(name: str) -> None:
    """A broker that reads the log in one go has the topic, its ELR and the end of that in one delta."""
    elr = PartitionChangeRecord(topic_id=_id(1), partition_id=1, eligible_leader_replicas=(2,))
    found = image_of(*ORDERS, elr, ClearElrRecord(topic_name=name)).topics.by_name["orders"].partitions[1]
    assert (found.elr, found.partition_epoch) == ((), 2)


def test_clear_elr_of_a_topic_that_takes_the_name_of_a_removed_one() -> None:
    again = TopicRecord(name="orders", topic_id=_id(2)), partition(2, 0, eligible_leader_replicas=(1,))
    records = RemoveTopicRecord(topic_id=_id(1)), *again, ClearElrRecord(topic_name="orders")
    image = image_of(*records, image=image_of(*ORDERS))
    assert [topic.id for topic in image.topics] == [_id(2)]
    assert image.topics.by_name["orders"].partitions[0].elr == ()


def test_clear_elr_of_a_named_topic_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record that a change of `min.insync.replicas` writes would otherwise go through all topics."""
    image = image_of(*ORDERS, TopicRecord(name="t", topic_id=_id(2)), partition(2, 0, eligible_leader_replicas=(1,)))

    def all_topics(_: TopicsImage) -> Never:
        raise AssertionError("all topics were looked at")

    monkeypatch.setattr(TopicsImage, "__iter__", all_topics)
    assert image_of(ClearElrRecord(topic_name="t"), image=image).topics.by_name["t"].partitions[0].elr == ()
    for records in ((), (RemoveTopicRecord(topic_id=_id(2)),)):
        with pytest.raises(KeyError, match="no topic has the name"):
            image_of(*records, ClearElrRecord(topic_name="t" if records else "none"), image=image)


def test_a_broker_that_is_unregistered_leaves_its_configurations() -> None:
    """They count again when it registers again, as in Kafka."""
    broker = RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=_id(3), end_points=(), features=())
    of_it, of_all = (ConfigRecord(resource_type=4, resource_name=name, name="a", value="1") for name in ("1", ""))
    image = image_of(broker, of_it, of_all)
    with pytest.raises(KeyError):
        image_of(UnregisterBrokerRecord(broker_id=1, broker_epoch=4), image=image)
    image = image_of(UnregisterBrokerRecord(broker_id=1, broker_epoch=5), image=image)
    assert not image.cluster.brokers
    assert set(image.configs.by_resource) == {(4, "1"), (4, "")}


def test_records_of_older_releases_fence_and_unfence_a_broker() -> None:
    broker = RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=_id(3), end_points=(), features=())
    image = image_of(broker, UnfenceBrokerRecord(id=1, epoch=5))
    assert [found.id for found in image.cluster.alive()] == [1]
    assert not image_of(FenceBrokerRecord(id=1, epoch=5), image=image).cluster.alive()


def test_a_record_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="no image takes a object"):
        image_of(object())


def test_a_broker_is_fenced_until_a_change_says_otherwise() -> None:
    broker = RegisterBrokerRecord(
        broker_id=1, broker_epoch=5, incarnation_id=_id(3), end_points=(), features=(), log_dirs=(_id(4),)
    )
    image = image_of(broker)
    assert image.cluster.alive() == []
    image = image_of(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1), image=image)
    assert [broker.id for broker in image.cluster.alive()] == [1]
    image = image_of(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1), image=image)
    assert image.cluster.brokers[1].in_controlled_shutdown
    assert image.cluster.brokers[1].directories == (_id(4),)
    with pytest.raises(KeyError):
        image_of(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6, fenced=1), image=image)


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=_id(7)),
        PartitionChangeRecord(topic_id=_id(7), partition_id=0),
        PartitionChangeRecord(topic_id=_id(1), partition_id=2, leader=1),
    ],
)
def test_a_record_about_what_is_not_there_is_an_error(record: Any) -> None:
    with pytest.raises(KeyError):
        image_of(record, image=image_of(*ORDERS))


def test_quotas_credentials_features_and_producer_ids() -> None:
    user = (QuotaEntity(entity_type="user", entity_name=None),)
    credential = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
    )
    image = image_of(
        ClientQuotaRecord(entity=user, key="producer_byte_rate", value=1.5),
        ClientQuotaRecord(entity=user, key="consumer_byte_rate", value=2.0),
        ClientQuotaRecord(entity=user, key="consumer_byte_rate", remove=True),
        credential,
        FeatureLevelRecord(name="metadata.version", feature_level=33),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
    )
    assert image.quotas == Map({(("user", None),): Map({"producer_byte_rate": 1.5})})
    assert dict(image.scram) == {("alice", 1): credential}
    assert (image.metadata_version, image.next_producer_id) == (33, 1000)
    gone = image_of(
        ClientQuotaRecord(entity=user, key="producer_byte_rate", remove=True),
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        FeatureLevelRecord(name="metadata.version", feature_level=0),
        image=image,
    )
    assert (len(gone.quotas), len(gone.scram), gone.metadata_version) == (0, 0, 0)
    assert _led_to(image, gone) == gone
    assert _led_to(gone, image) == image


def test_a_snapshot_in_place_of_an_image_takes_brokers_and_their_configurations_away() -> None:
    broker = RegisterBrokerRecord(broker_id=1, broker_epoch=5, incarnation_id=_id(3), end_points=(), features=())
    config = ConfigRecord(resource_type=4, resource_name="1", name="a", value="1")
    before, after = image_of(broker, config), image_of(config, NoOpRecord())
    assert _led_to(before, after) == after
    assert _led_to(after, before) == before
    assert delta_to(before, after).cluster.changed == {1: None}
    assert not delta_to(before, before).touched("cluster")


def test_records_of_a_transaction_count_together_or_not_at_all() -> None:
    loader = ImageLoader()
    loader.load([BeginTransactionRecord(), ORDERS[0]])
    loader.publish(1, 1, 0)
    assert loader.image.topics.get("orders") is None
    loader.load([*ORDERS[1:], EndTransactionRecord(), NoOpRecord()])
    loader.publish(5, 1, 0)
    assert loader.image.topics.by_name["orders"].partition_count == 2
    loader.load([BeginTransactionRecord(), RemoveTopicRecord(topic_id=_id(1)), AbortTransactionRecord()])
    loader.publish(8, 1, 0)
    assert loader.image.topics.get("orders") is not None


_NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), _NAMES, st.integers(1, 3)),
        st.tuples(st.just("delete"), _NAMES, st.just(0)),
        st.tuples(st.just("elect"), _NAMES, st.integers(0, 2)),
        st.tuples(st.just("config"), _NAMES, st.integers(0, 2)),
    ),
    max_size=25,
)


@given(_STEPS, st.lists(st.booleans(), min_size=25, max_size=25))
@settings(deadline=None)
def test_any_records_in_any_batches_against_a_model(steps: list[tuple[str, str, int]], ends: list[bool]) -> None:
    """The model: name to (id, leader epochs, configs)."""
    loader, model = ImageLoader(), dict[str, tuple[UUID, list[int], dict[str, str]]]()
    images = [loader.image]
    for number, (what, name, value) in enumerate(steps):
        topic_id, epochs, configs = model.get(name, (_id(100 + number), [], {}))
        match what:
            case "create" if name not in model:
                loader.load([TopicRecord(name=name, topic_id=topic_id)])
                loader.load([partition(topic_id.int, index) for index in range(value)])
                model[name] = topic_id, [0] * value, {}
            case "delete" if name in model:
                loader.load([RemoveTopicRecord(topic_id=topic_id)])
                del model[name]
            case "elect" if value < len(epochs):
                loader.load([PartitionChangeRecord(topic_id=topic_id, partition_id=value, leader=1)])
                epochs[value] += 1
            case "config" if name in model:
                text = str(value) if value else None
                loader.load([ConfigRecord(resource_type=TOPIC, resource_name=name, name="k", value=text)])
                configs.pop("k", None)
                if text is not None:
                    configs["k"] = text
        if ends[number]:
            loader.publish(number, 1, 0)
            images.append(loader.image)
    loader.publish(len(steps), 1, 0)
    _check(loader.image, model)
    again = ImageLoader()
    again.load(records_of(loader.image))
    again.publish(loader.image.offset, 1, 0)
    assert again.image == loader.image
    for image in images:
        assert _led_to(image, loader.image) == loader.image
        assert _led_to(loader.image, image) == image


def _led_to(before: MetadataImage, after: MetadataImage) -> MetadataImage:
    return delta_to(before, after).apply(after.offset, after.epoch, after.timestamp_ms)


def _check(image: MetadataImage, model: dict[str, tuple[UUID, list[int], dict[str, str]]]) -> None:
    assert [topic.name for topic in image.topics.sorted()] == sorted(model)
    for name, (topic_id, epochs, configs) in model.items():
        topic = image.topics.by_id(topic_id)
        assert topic is not None
        assert [found.leader_epoch for _, found in topic.in_order()] == epochs
        assert dict(image.configs.of(TOPIC, name)) == configs
    for name in ("a", "c.d", "c_d"):
        colliding = sorted(
            known for known in model if known.replace(".", "_") == name.replace(".", "_") and name != "a"
        )
        assert image.topics.colliding_with(name) == (colliding[0] if colliding else None)
