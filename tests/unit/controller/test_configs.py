"""AlterConfigs and IncrementalAlterConfigs as decisions: records, refusals, and the rules of KIP-966."""

from __future__ import annotations

import time
from typing import Any

import pytest

from controller.configs import (
    LONGEST_VALUE,
    AlterOp,
    ConfigChange,
    ResourceChange,
    apply_changes,
    changed_records,
    decide,
)
from controller.decision import Decision
from controller.replica_rules import ELR_FEATURE, MIN_ISR
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import MetadataImage
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError
from protocol.metadata.topics import ClearElrRecord, FeatureLevelRecord
from tests.unit.controller.images import after, around, broker, config, image_of, partition, topic

SET, DELETE, APPEND, SUBTRACT = AlterOp
TOPIC, BROKER, METRICS, GROUP = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)
IMAGE = image_of(
    FeatureLevelRecord(name=ELR_FEATURE, feature_level=1),
    broker(1),
    *topic("t", 1, [1], configs={"retention.ms": "5"}),
    *topic("u", 2, [1]),
    config(BROKER, CLUSTER_DEFAULT, MIN_ISR, "1"),
)
Op = tuple[str, int, str | None]


def change(resource_type: int, name: str, *changes: Op, incremental: bool = True) -> ResourceChange:
    return ResourceChange(resource_type, name, [ConfigChange(*each) for each in changes], incremental)


def decided(
    *wanted: ResourceChange, image: MetadataImage = IMAGE, validate_only: bool = False
) -> Decision[list[KafkaError | None]]:
    return decide(image, wanted, around(), validate_only=validate_only)


def codes(decision: Decision[list[KafkaError | None]]) -> list[str]:
    return ["none" if error is None else error.code.name for error in decision.response]


# -- what is set after changes


def applied(current: dict[str, str], *changes: Op) -> dict[str, str]:
    return apply_changes(
        current, [ConfigChange(*each) for each in changes], {"cleanup.policy": "delete", "metrics": ""}.get
    )


@pytest.mark.parametrize(
    ("current", "change", "expected"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, "ignored"), {}),
        ({}, ("nope", DELETE, None), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            ("cleanup.policy", APPEND, "compact,delete"),
            {"cleanup.policy": "compact,delete"},
        ),
        ({"cleanup.policy": "compact,delete"}, ("cleanup.policy", SUBTRACT, "compact"), {"cleanup.policy": "delete"}),
        ({}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, ("cleanup.policy", APPEND, "delete,"), {"cleanup.policy": "delete"}),
        ({}, ("metrics", APPEND, "a,b"), {"metrics": "a,b"}),
    ],
)
def test_changes(current: dict[str, str], change: Op, expected: dict[str, str]) -> None:
    assert applied(current, change) == expected


def test_changes_are_made_in_their_order_and_leave_what_was_as_it_was() -> None:
    current = {"retention.ms": "5"}
    assert applied(
        current, ("retention.ms", DELETE, None), ("retention.ms", SET, "6"), ("cleanup.policy", SET, "")
    ) == {
        "retention.ms": "6",
        "cleanup.policy": "",
    }
    assert current == {"retention.ms": "5"}


def test_subtract_takes_a_part_as_often_as_it_is_named() -> None:
    current = {"metrics": "a,b,a,c,a"}
    assert applied(current, ("metrics", SUBTRACT, "a,c,a,d")) == {"metrics": "b,a"}
    assert applied(current, ("metrics", APPEND, "d,a,d,")) == {"metrics": "a,b,a,c,a,d"}


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_list_of_a_great_many_parts_costs_what_its_size_does(operation: int) -> None:
    many = ",".join(map(str, range(20_000)))
    current = {"metrics": "" if operation == APPEND else ",".join(map(str, reversed(range(20_000))))}
    used = time.process_time()
    applied(current, ("metrics", operation, many))
    assert time.process_time() - used < 0.5  # 0.01 s; when each part was looked for in a list, it was 3 s


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_only_lists_have_parts(operation: AlterOp) -> None:
    with pytest.raises(InvalidConfiguration, match=r"retention\.ms is no list"):
        applied({}, ("retention.ms", operation, "1"))


@pytest.mark.parametrize("operation", [-1, 4])
def test_operations_that_there_are_not(operation: int) -> None:
    with pytest.raises(InvalidRequest):
        applied({}, ("retention.ms", DELETE, None), ("retention.ms", operation, "1"))


def test_only_differences_are_written() -> None:
    records = list(changed_records((TOPIC, "t"), {"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}))
    assert records == [config(TOPIC, "t", name, value) for name, value in (("a", None), ("c", "4"), ("d", "5"))]


# -- decisions


def test_incremental_changes_modify_what_is_set_and_others_replace_it() -> None:
    wanted = ("cleanup.policy", SET, "compact")
    added = config(TOPIC, "t", "cleanup.policy", "compact")
    assert decided(change(TOPIC, "t", wanted)).records == [added]
    replaced = decided(change(TOPIC, "t", wanted, incremental=False))
    assert replaced.records == [added, config(TOPIC, "t", "retention.ms", None)]
    assert dict(after(IMAGE, replaced).configs.of(TOPIC, "t")) == {"cleanup.policy": "compact"}


def test_what_is_set_already_needs_no_record() -> None:
    decision = decided(change(TOPIC, "t", ("retention.ms", SET, "5")), change(GROUP, "g", ("x", DELETE, None)))
    assert codes(decision) == ["none", "none"]
    assert not decision.records


def test_validate_only_answers_and_writes_nothing() -> None:
    decision = decided(
        change(TOPIC, "t", ("retention.ms", SET, "x")),
        change(TOPIC, "u", ("retention.ms", SET, "6")),
        validate_only=True,
    )
    assert codes(decision) == ["invalid_config", "none"]
    assert not decision.records


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (change(TOPIC, "", ("retention.ms", SET, "6")), "invalid_request"),
        (change(TOPIC, "bad/", ("retention.ms", SET, "6")), "invalid_topic_exception"),
        (change(TOPIC, "no", ("retention.ms", SET, "6")), "unknown_topic_or_partition"),
        (change(TOPIC, "no", ("no.such", SET, "6")), "invalid_config"),
        (change(TOPIC, "t", ("retention.ms", SET, "x")), "invalid_config"),
        (change(TOPIC, "t", ("retention.ms", APPEND, "6")), "invalid_config"),
        (change(GROUP, "", ("x", SET, "6")), "invalid_request"),
        (change(METRICS, "", ("x", SET, "6")), "invalid_request"),
        (change(BROKER, "1", (MIN_ISR, SET, "2")), "invalid_config"),
        (change(BROKER, CLUSTER_DEFAULT, (MIN_ISR, DELETE, None)), "invalid_config"),
        (change(BROKER, CLUSTER_DEFAULT, ("x", SET, "1"), incremental=False), "invalid_config"),
    ],
)
def test_a_refused_resource_leaves_the_others(refused: ResourceChange, code: str) -> None:
    decision = decided(refused, change(TOPIC, "u", ("retention.ms", SET, "6")))
    assert codes(decision) == [code, "none"]
    assert decision.records == [config(TOPIC, "u", "retention.ms", "6")]


def test_an_operation_that_does_not_exist_fails_the_whole_request() -> None:
    decision = decided(
        change(TOPIC, "t", ("retention.ms", SET, "6")),
        change(METRICS, "m", ("interval.ms", 9, "1")),
        change(TOPIC, "no", ("retention.ms", SET, "6")),
    )
    assert codes(decision) == ["invalid_request"] * 3
    assert not decision.records


@pytest.mark.parametrize("part", ["q", "\N{GRINNING FACE}"])
def test_a_value_that_appending_makes_longer_than_a_record_can_hold_is_refused(part: str) -> None:
    units = len(part.encode("utf-16-le")) // 2
    fits = (LONGEST_VALUE - len("delete,")) // units
    decision = decided(change(TOPIC, "t", ("cleanup.policy", APPEND, part * fits)))
    assert codes(decision) == ["none"]
    value = after(IMAGE, decision).configs.of(TOPIC, "t")["cleanup.policy"]
    decision = decided(change(TOPIC, "t", ("cleanup.policy", APPEND, part * (fits + 1))))
    assert codes(decision) == ["invalid_config"]
    assert value == "delete," + part * fits


LEFT = "of.an.older.release"
WITH_LEFT = image_of(config(TOPIC, "t", LEFT, "x"), image=IMAGE)


@pytest.mark.parametrize("incremental", [True, False])
def test_a_configuration_that_another_release_has_left_hinders_no_change(incremental: bool) -> None:
    decision = decided(change(TOPIC, "t", ("retention.ms", SET, "6"), incremental=incremental), image=WITH_LEFT)
    assert codes(decision) == ["none"]
    expected = {"retention.ms": "6"} | ({LEFT: "x"} if incremental else {})
    assert dict(after(WITH_LEFT, decision).configs.of(TOPIC, "t")) == expected


@pytest.mark.parametrize(
    ("wanted", "records"),
    [
        (change(TOPIC, "t", (LEFT, DELETE, None)), [config(TOPIC, "t", LEFT, None)]),
        (change(TOPIC, "t", ("retention.ms", SET, "5"), incremental=False), [config(TOPIC, "t", LEFT, None)]),
    ],
)
def test_a_configuration_that_another_release_has_left_can_be_removed(
    wanted: ResourceChange, records: list[Any]
) -> None:
    decision = decided(wanted, image=WITH_LEFT)
    assert (codes(decision), decision.records) == (["none"], records)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("text", ["x", "y"])
def test_a_configuration_that_another_release_has_left_cannot_be_set(text: str, incremental: bool) -> None:
    decision = decided(change(TOPIC, "t", (LEFT, SET, text), incremental=incremental), image=WITH_LEFT)
    assert (codes(decision), decision.records) == (["invalid_config"], [])


# -- min.insync.replicas (KIP-966)


@pytest.mark.parametrize(
    ("wanted", "cleared"),
    [
        (change(TOPIC, "t", (MIN_ISR, SET, "2")), ["t"]),
        (change(TOPIC, "t", ("retention.ms", SET, "9")), []),
        (change(BROKER, CLUSTER_DEFAULT, (MIN_ISR, SET, "2")), [""]),
        (change(BROKER, CLUSTER_DEFAULT, (MIN_ISR, SET, "1")), []),
        (change(BROKER, "1", ("x", SET, "2")), []),
        (change(GROUP, "t", (MIN_ISR, SET, "2")), []),
    ],
)
def test_a_changed_minimum_makes_no_replica_eligible_any_more(wanted: ResourceChange, cleared: list[str]) -> None:
    decision = decided(wanted)
    assert codes(decision) == ["none"]
    found: list[Any] = [record for record in decision.records if isinstance(record, ClearElrRecord)]
    assert [record.topic_name for record in found] == cleared


def test_a_minimum_that_is_removed_from_a_topic_counts_as_changed() -> None:
    image = image_of(config(TOPIC, "t", MIN_ISR, "2"), image=IMAGE)
    decision = decided(change(TOPIC, "t", (MIN_ISR, DELETE, None)), image=image)
    assert decision.records == [config(TOPIC, "t", MIN_ISR, None), ClearElrRecord(topic_name="t")]


@pytest.mark.parametrize("name", [CLUSTER_DEFAULT, "1"])
def test_without_eligible_leader_replicas_the_minimum_of_brokers_is_a_configuration_like_others(name: str) -> None:
    """An older release would not know the ClearElrRecord."""
    image = image_of(FeatureLevelRecord(name=ELR_FEATURE, feature_level=0), image=IMAGE)
    for value, op in (("2", SET), (None, DELETE)):
        decision = decided(change(BROKER, name, (MIN_ISR, op, value)), image=image)
        assert decision.records == [config(BROKER, name, MIN_ISR, value)]
        image = after(image, decision)


def test_without_eligible_leader_replicas_none_are_cleared_of_a_topic() -> None:
    image = image_of(FeatureLevelRecord(name=ELR_FEATURE, feature_level=0), image=IMAGE)
    decision = decided(change(TOPIC, "t", (MIN_ISR, SET, "2")), image=image)
    assert decision.records == [config(TOPIC, "t", MIN_ISR, "2")]


def test_a_changed_minimum_raises_the_epoch_that_alter_partition_must_know() -> None:
    image = image_of(partition(1, 0, [1, 2], isr=(1,), eligible_leader_replicas=(2,), partition_epoch=4), image=IMAGE)
    changed = after(image, decided(change(TOPIC, "t", (MIN_ISR, SET, "2")), image=image)).topics.by_name["t"]
    assert (changed.partitions[0].elr, changed.partitions[0].partition_epoch) == ((), 5)
