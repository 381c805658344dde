"""Feature levels: which may be raised and lowered, and which updates are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.decision import Decision
from controller.features import (
    DEFAULTS,
    SAFE_DOWNGRADE,
    SUPPORTED,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    decide,
)
from controller.replica_rules import ELR_FEATURE, MIN_ISR
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import MetadataImage
from protocol.errors import InvalidUpdateVersion
from protocol.metadata.topics import FeatureLevelRecord
from tests.unit.controller.images import Schema, after, config, image_of

SCHEMA = Schema()
BROKER = ResourceType.BROKER
BEGUN = image_of(*(FeatureLevelRecord(name=name, feature_level=level) for name, level in DEFAULTS.items()))


def decided(
    image: MetadataImage, updates: Sequence[FeatureUpdate], *, kraft_version: int = 0, validate_only: bool = False
) -> Decision[bool]:
    return decide(image, updates, SCHEMA, kraft_version=kraft_version, validate_only=validate_only)


def levels(image: MetadataImage, *updates: FeatureUpdate) -> dict[str, int]:
    """The levels after the updates."""
    return dict(after(image, decided(image, updates)).features)


@pytest.mark.parametrize(
    ("name", "level", "kind", "complaint"),
    [
        ("no.such", 1, UPGRADE, "does not know"),
        ("no.such", 0, UPGRADE, "no such feature"),
        ("no.such", -1, 9, "upgrade type must be"),
        ("no.such", -1, UPGRADE, "negative"),
        ("group.version", 2, UPGRADE, "levels 0 to 1"),
        ("group.version", 0, UPGRADE, "downgrade"),
        ("share.version", 1, UPGRADE, "downgrade"),
        ("metadata.version", 32, SAFE_DOWNGRADE, "lose metadata"),
        ("metadata.version", 32, UNSAFE_DOWNGRADE, "lose metadata"),
        ("metadata.version", 0, UNSAFE_DOWNGRADE, "supports the levels 7 to"),
    ],
)
def test_refused(name: str, level: int, kind: int, complaint: str) -> None:
    with pytest.raises(InvalidUpdateVersion) as refused:
        decided(BEGUN, [FeatureUpdate(name, level, kind)])
    assert complaint in refused.value.message
    assert name in refused.value.message


def test_metadata_version_goes_down_as_far_as_no_metadata_is_lost() -> None:
    image = image_of(FeatureLevelRecord(name="metadata.version", feature_level=29))
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert levels(image, FeatureUpdate("metadata.version", 23, kind))["metadata.version"] == 23
        with pytest.raises(InvalidUpdateVersion, match="lose metadata"):
            decided(image, [FeatureUpdate("metadata.version", 22, kind)])


@pytest.mark.parametrize(("now", "level", "raises"), [(0, 0, False), (0, 1, True), (1, 1, False)])
def test_kraft_version_is_raised_by_no_record_of_the_image(now: int, level: int, raises: bool) -> None:
    for kind in (UPGRADE,) if level > now else (UPGRADE, UNSAFE_DOWNGRADE):
        update = [FeatureUpdate("kraft.version", level, kind)]
        decision = decided(BEGUN, update, kraft_version=now)
        assert (decision.records, decision.response) == ([], raises)
        assert not decided(BEGUN, update, kraft_version=now, validate_only=True).response


def test_kraft_version_is_never_lowered() -> None:
    lowered = [FeatureUpdate("kraft.version", 0, UNSAFE_DOWNGRADE)]
    with pytest.raises(InvalidUpdateVersion, match="cannot be downgraded"):
        decided(BEGUN, lowered, kraft_version=1)


def test_level_zero_takes_a_feature_away_and_none_is_changed_with_a_wrong_one() -> None:
    down = FeatureUpdate("group.version", 0, SAFE_DOWNGRADE)
    assert "group.version" not in levels(BEGUN, down)
    with pytest.raises(InvalidUpdateVersion):
        decided(BEGUN, [down, FeatureUpdate("no.such", 1, UPGRADE)])


def test_of_a_feature_named_twice_the_last_counts() -> None:
    twice = [FeatureUpdate("share.version", level, UPGRADE) for level in (99, 2)]
    assert levels(BEGUN, *twice)["share.version"] == 2


def test_of_two_wrong_ones_the_first_is_named() -> None:
    wrong = [FeatureUpdate(name, 99, UPGRADE) for name in ("share.version", "kraft.version")]
    with pytest.raises(InvalidUpdateVersion, match=r"share\.version"):
        decided(BEGUN, wrong)


def test_a_level_that_holds_already_needs_no_record() -> None:
    assert not decided(BEGUN, [FeatureUpdate("group.version", 1, UPGRADE)]).records


def test_validate_only_writes_nothing() -> None:
    assert not decided(BEGUN, [FeatureUpdate("share.version", 1, SAFE_DOWNGRADE)], validate_only=True).records


def test_a_new_cluster_has_levels_that_this_release_supports() -> None:
    for name, level in DEFAULTS.items():
        assert SUPPORTED[name][0] <= level <= SUPPORTED[name][1]


def test_eligible_leader_replicas_need_one_minimum_for_the_cluster() -> None:
    """As in Kafka: the cluster gets a `min.insync.replicas` if it has none, and brokers lose theirs."""
    of_brokers = [config(BROKER, name, MIN_ISR, "2") for name in ("1", "2")]
    image = image_of(*of_brokers, config(BROKER, "2", "other", "1"))
    decision = decided(image, [FeatureUpdate(ELR_FEATURE, 1, UPGRADE)])
    assert decision.records == [
        FeatureLevelRecord(name=ELR_FEATURE, feature_level=1),
        config(BROKER, CLUSTER_DEFAULT, MIN_ISR, "1"),
        config(BROKER, "1", MIN_ISR, None),
        config(BROKER, "2", MIN_ISR, None),
    ]


def test_the_minimum_of_a_cluster_that_has_one_stays() -> None:
    image = image_of(config(BROKER, CLUSTER_DEFAULT, MIN_ISR, "2"))
    for kind, level in ((UPGRADE, 1), (UNSAFE_DOWNGRADE, 0)):
        decision = decided(image, [FeatureUpdate(ELR_FEATURE, level, kind)])
        assert decision.records == [FeatureLevelRecord(name=ELR_FEATURE, feature_level=level)]
        image = after(image, decision)
