"""Feature levels: what Kafka 4.1 lets be raised, lowered, and refuses, and that it is kept."""

from __future__ import annotations

import pytest
from broker.metadata.feature_updates import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdate, updated_levels
from broker.metadata.features import DEFAULTS, Features
from kio.schema.update_features.v2.request import FeatureUpdateKey

from protocol.errors import InvalidUpdateVersion
from tests.unit.broker.admin_rig import Rig


@pytest.mark.parametrize(
    ("name", "level", "kind", "complaint"),
    [
        ("no.such", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("no.such", 0, UPGRADE, "Feature no.such not found."),
        ("no.such", -1, 9, "does not support the given upgrade type"),
        ("no.such", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", 0, UPGRADE, "Can't downgrade the version of this feature without"),
        ("share.version", 1, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        ("metadata.version", 22, SAFE_DOWNGRADE, "Refusing to perform the requested downgrade"),
        ("metadata.version", 22, UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported"),
        ("metadata.version", 0, UNSAFE_DOWNGRADE, "only supports versions 7-27"),
    ],
)
def test_refused(name: str, level: int, kind: int, complaint: str) -> None:
    with pytest.raises(InvalidUpdateVersion) as refused:
        updated_levels(DEFAULTS, [FeatureUpdate(name, level, kind)], 1)
    assert complaint in refused.value.message


def test_kraft_version_is_never_lowered() -> None:
    levels = updated_levels(DEFAULTS, [FeatureUpdate("kraft.version", 1, UPGRADE)], 1)
    assert updated_levels(DEFAULTS, [FeatureUpdate("kraft.version", 0, UNSAFE_DOWNGRADE)], 1) == DEFAULTS
    with pytest.raises(InvalidUpdateVersion, match=r"Can't downgrade the version of this feature\.$"):
        updated_levels(levels, [FeatureUpdate("kraft.version", 0, UNSAFE_DOWNGRADE)], 1)


def test_level_zero_takes_a_feature_away_and_none_is_changed_with_a_wrong_one() -> None:
    down = FeatureUpdate("group.version", 0, SAFE_DOWNGRADE)
    assert "group.version" not in updated_levels(DEFAULTS, [down], 1)
    with pytest.raises(InvalidUpdateVersion):
        updated_levels(DEFAULTS, [down, FeatureUpdate("no.such", 1, UPGRADE)], 1)


def test_of_a_feature_named_twice_the_last_counts_and_of_two_wrong_ones_the_first_of_a_hash_map_is_told() -> None:
    twice = [FeatureUpdate("share.version", level, UPGRADE) for level in (99, 1)]
    assert updated_levels(DEFAULTS, twice, 1)["share.version"] == 1
    with pytest.raises(InvalidUpdateVersion) as refused:
        updated_levels(DEFAULTS, [FeatureUpdate(name, 99, UPGRADE) for name in ("share.version", "kraft.version")], 1)
    assert "for feature kraft.version." in refused.value.message


async def test_an_update_is_in_force_at_once_and_after_a_restart() -> None:
    rig = await Rig.open()
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=UPGRADE)
    answer = await rig.ask("update_features", 1, feature_updates=(update,))
    assert [(one.feature, int(one.error_code), one.error_message) for one in answer.results] == [
        ("share.version", 0, "NONE")
    ]
    assert rig.node.features.levels == {**DEFAULTS, "share.version": 1}
    assert rig.node.features.epoch == rig.node.cache.image.offset
    assert (await Rig.open(rig.fs)).node.features.levels == {**DEFAULTS, "share.version": 1}


async def test_validate_only_changes_nothing() -> None:
    rig = await Rig.open()
    before = rig.node.cache.image.offset
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    answer = await rig.ask("update_features", feature_updates=(wanted,), validate_only=True)
    assert int(answer.error_code) == 0
    assert rig.node.features.levels == dict(DEFAULTS)
    assert rig.node.cache.image.offset == before


@pytest.mark.parametrize(
    ("without", "told"),
    [
        ((), "group transaction eligible metadata"),
        (("group",), "eligible transaction metadata"),
        (("transaction",), "group eligible metadata"),
        (("eligible",), "group transaction metadata"),
        (("group", "transaction"), "eligible metadata"),
        (("group", "transaction", "eligible"), "metadata"),
    ],
)
def test_finalized_features_stand_in_the_order_of_kafkas_map_also_when_they_come_back(
    without: tuple[str, ...], told: str
) -> None:
    first = [name for name in DEFAULTS if name.split(".")[0] not in without]
    assert [name.split(".")[0] for name in Features(dict.fromkeys(first, 1)).finalized()] == told.split()
    back = [*first, *(name for name in DEFAULTS if name not in first)]
    assert [*Features(dict.fromkeys(back, 1)).finalized()] == [*DEFAULTS]
