"""`assert_exactly_once`: what is missing, doubled or from nowhere is named, in Python as over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable

import pytest

from odradek import Broker, ControlError, Record, Topic

KEYS = ["key", "value.id", lambda record: record.json()["id"]]


@pytest.fixture
def topics(shared_broker: Broker, topic: str) -> tuple[Topic, Topic]:
    source, sink = shared_broker.topic(f"{topic}-in", partitions=3), shared_broker.topic(f"{topic}-out")
    source.produce_many([(str(number), json.dumps({"id": number})) for number in range(5)])
    return source, sink


@pytest.mark.parametrize("key", KEYS)
def test_it_waits_for_what_is_missing(
    shared_broker: Broker, topics: tuple[Topic, Topic], key: str | Callable[[Record], Hashable]
) -> None:
    source, sink = topics
    sink.produce_many([(record.key, record.value) for record in source.records()[1:]])
    last = source.records()[0]
    threading.Timer(0.2, lambda: sink.produce(last.value, key=last.key)).start()
    shared_broker.assert_exactly_once(source, sink, key, timeout=30)


@pytest.mark.parametrize("key", KEYS)
def test_what_is_wrong_is_named(
    shared_broker: Broker, topics: tuple[Topic, Topic], key: str | Callable[[Record], Hashable]
) -> None:
    source, sink = topics
    sink.produce_many([(str(number), json.dumps({"id": number})) for number in (0, 1, 1, 2, 9)])
    with pytest.raises(AssertionError) as caught:
        shared_broker.assert_exactly_once(str(source), str(sink), key=key, timeout=30)
    text = str(caught.value)
    assert text.startswith(f"{sink} does not have each record of {source} exactly once:\n")
    assert "\n  3 is missing; in the source: " in text
    assert f"\n  1 is there 2 times, not 1: {sink}-0 at 1, {sink}-0 at 2\n" in text
    assert f"\n  9 is not in the source: {sink}-0 at 4" in text


async def test_a_wrong_key_or_topic_names_the_parameter(shared_broker: Broker, topics: tuple[Topic, Topic]) -> None:
    source, sink = topics
    with pytest.raises(ControlError, match="expected key, value, ") as caught:
        shared_broker.assert_exactly_once(source, sink, key="id")
    assert caught.value.parameter == "key"
    with pytest.raises(ControlError, match="has no name") as caught:
        await shared_broker.assert_exactly_once_async(source, sink, key="value.name")
    assert caught.value.parameter == "key"
    with pytest.raises(ControlError, match="there is no topic") as caught:
        shared_broker.assert_exactly_once(source, "nowhere")
    assert caught.value.parameter == "sink"
