"""The order of names as Apache Kafka 4.1 was seen to give it."""

import pytest

from protocol.java_collections import in_hash_order, in_java_order, scala_set


@pytest.mark.parametrize(
    "shown",
    [
        "Set(node.id, num.partitions, broker.rack, log.dirs)",
        "HashSet(num.partitions, log.dirs, node.id, broker.rack, log.dir)",
        "HashSet(listener.name.a.b, listeners, ssl.cipher.suites, ssl.protocol, ssl.provider, sasl.jaas.config)",
    ],
)
def test_a_scala_set(shown: str) -> None:
    names = shown.partition("(")[2].removesuffix(")").split(", ")
    assert scala_set(in_java_order(names)) == shown
    assert shown.startswith("Set") or scala_set(names[::-1]) == shown


def test_names_of_one_bucket_stand_by_hash_in_scala_and_as_they_came_in_java() -> None:
    first, second = "remote.log.manager.fetch.max.bytes.per.second", "remote.log.storage.system.enable"
    assert in_hash_order([first, second]) == in_hash_order([second, first])
    assert in_java_order([first, second]) == [first, second]
    assert in_java_order([second, first]) == [second, first]
