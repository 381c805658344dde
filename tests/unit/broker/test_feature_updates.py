"""UpdateFeatures: an update is in force at once and kept. What is refused is in tests/unit/controller."""

from __future__ import annotations

from typing import Any

from kio.schema.update_features.v2.request import FeatureUpdateKey

from controller.features import DEFAULTS, SAFE_DOWNGRADE, UPGRADE
from tests.unit.broker.admin_rig import Rig


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
