"""UpdateFeatures: an update is in force at once and kept. What is refused is in tests/unit/controller."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kio.schema.describe_quorum.v2.request import PartitionData, TopicData
from kio.schema.update_features.v2.request import FeatureUpdateKey

from controller.features import DEFAULTS, SAFE_DOWNGRADE, UPGRADE
from controller.quorum.features import METADATA_VERSIONS
from metadata.settings import KRAFT_VERSION
from protocol.metadata.brokers import Endpoint
from protocol.metadata.topics import FeatureLevelRecord
from tests.unit.broker.admin_rig import DIRECTORY, Rig
from tests.unit.controller.images import image_of


async def finalized(rig: Rig) -> tuple[dict[str, int], int]:
    """The finalized levels, and their epoch, as clients are told."""
    answer: Any = await rig.ask("api_versions", 4, client_software_name="a", client_software_version="1")
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels, answer.finalized_features_epoch


async def test_an_update_is_in_force_at_once_and_after_a_restart() -> None:
    rig = await Rig.open()
    assert await finalized(rig) == (dict(DEFAULTS), rig.node.cluster.cache.image.offset)
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", 1, feature_updates=(update,))
    assert [(one.feature, int(one.error_code), one.error_message) for one in answer.results] == [
        ("share.version", 0, "NONE")
    ]
    assert await finalized(rig) == ({**DEFAULTS, "share.version": 1}, rig.node.cluster.cache.image.offset)
    assert (await finalized(await Rig.open(rig.fs)))[0] == {**DEFAULTS, "share.version": 1}


async def test_level_zero_is_the_same_as_not_being_finalized() -> None:
    rig = await Rig.open()
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", feature_updates=(update,))
    assert int(answer.error_code) == 0
    levels, _ = await finalized(rig)
    assert levels == {name: level for name, level in DEFAULTS.items() if name != "group.version"}
    again = await Rig.open(rig.fs)
    assert (await finalized(again))[0] == levels


async def test_validate_only_changes_nothing() -> None:
    rig = await Rig.open()
    before = rig.node.cluster.cache.image
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", feature_updates=(wanted,), validate_only=True)
    assert int(answer.error_code) == 0
    assert rig.node.cluster.cache.image is before


async def test_a_refused_update_changes_nothing() -> None:
    rig = await Rig.open()
    before = rig.node.cluster.cache.image
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=9, upgrade_type=UPGRADE)
    answer = await rig.ask("update_features", feature_updates=(wanted,))
    assert answer.error_code.name == "invalid_update_version"
    assert "group.version" in answer.error_message
    assert rig.node.cluster.cache.image is before


# -- kraft.version

RAISED = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=UPGRADE)
QUORUM = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))


def with_controller_listener(rig: Rig) -> None:
    endpoint = Endpoint(name="CONTROLLER", host="controller.example", port=9093, security_protocol=0)
    service: Any = SimpleNamespace(
        log=rig.node.cluster.metadata_log, endpoint=endpoint, observers=SimpleNamespace(known={})
    )
    rig.node.cluster = replace(rig.node.cluster, controller_service=service)


async def test_kraft_version_is_finalized_once_the_log_says_who_the_voters_are() -> None:
    rig = await Rig.open()
    with_controller_listener(rig)
    assert KRAFT_VERSION not in (await finalized(rig))[0]  # level 0 is not finalized
    answer = await rig.ask("update_features", feature_updates=(RAISED,))
    assert int(answer.error_code) == 0
    (node,) = (await finalized(rig))[0].items() - DEFAULTS.items()
    assert node == (KRAFT_VERSION, 1)
    again = await Rig.open(rig.fs)
    with_controller_listener(again)
    assert (await finalized(again))[0] == {**DEFAULTS, KRAFT_VERSION: 1}
    quorum = await again.ask("describe_quorum", topics=(QUORUM,))
    (voter,) = quorum.topics[0].partitions[0].current_voters
    assert voter.replica_directory_id == DIRECTORY
    again_raised = await again.ask("update_features", feature_updates=(RAISED,))
    assert int(again_raised.error_code) == 0
    lowered = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    answer = await again.ask("update_features", feature_updates=(lowered,))
    assert answer.error_code.name == "invalid_update_version"


async def test_kraft_version_is_not_raised_by_validation_alone() -> None:
    rig = await Rig.open()
    with_controller_listener(rig)
    answer = await rig.ask("update_features", feature_updates=(RAISED,), validate_only=True)
    assert int(answer.error_code) == 0
    assert (await finalized(rig))[0] == dict(DEFAULTS)


async def test_kraft_version_of_a_node_that_no_other_reaches_is_not_raised() -> None:
    rig = await Rig.open()
    other = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", feature_updates=(other, RAISED))
    assert answer.error_code.name == "invalid_update_version"
    assert "controller.listener.names" in answer.error_message
    assert (await finalized(rig))[0] == dict(DEFAULTS)


async def test_kraft_version_that_cannot_be_raised_changes_no_other_feature() -> None:
    rig = await Rig.open()
    with_controller_listener(rig)
    rig.node.cluster.metadata_log._survey.directory_id = None
    other = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", feature_updates=(other, RAISED))
    assert int(answer.error_code) != 0
    assert (await finalized(rig))[0] == dict(DEFAULTS)


async def test_kraft_version_is_raised_once_by_two_requests_at_once() -> None:
    rig = await Rig.open()
    with_controller_listener(rig)
    log = rig.node.cluster.metadata_log
    before = log.next_offset
    asked = [rig.ask("update_features", feature_updates=(RAISED,)) for _ in range(2)]
    assert [int(answer.error_code) for answer in await asyncio.gather(*asked)] == [0, 0]
    assert log.next_offset == before + 2  # the version, and the voters


async def test_an_earlier_releases_record_of_kraft_version_counts_for_nothing() -> None:
    rig = await Rig.open()
    cache = rig.node.cluster.cache
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSIONS["4.4-IV2"]),
        FeatureLevelRecord(name=KRAFT_VERSION, feature_level=1),
    )
    assert list(cache.finalized_features(image)) == ["metadata.version"]
