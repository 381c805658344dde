"""UnregisterController; the refusals are those of a Kafka 4.4 with one controller."""

from __future__ import annotations

import pytest

from controller.unregister_controller import FIRST_METADATA_VERSION, decide
from metadata.image import EMPTY, MetadataImage
from metadata.settings import METADATA_VERSION
from protocol.errors import InvalidRequest, UnsupportedVersion
from protocol.metadata.brokers import RegisterControllerRecord
from protocol.metadata.topics import FeatureLevelRecord
from tests.unit.controller.images import image_of

ACTIVE, GONE, STRANGER = 1, 2, 3


def registered(controller_id: int) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller_id, incarnation_id=None, zk_migration_ready=False, end_points=(), features=()
    )


def cluster(level: int = FIRST_METADATA_VERSION) -> MetadataImage:
    return image_of(
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=level),
        registered(ACTIVE),
        registered(GONE),
        image=EMPTY,
    )


def test_a_controller_that_has_left_is_forgotten() -> None:
    image = cluster()
    decision = decide(image, GONE, ACTIVE)
    assert decision.response
    after = image_of(*decision.records, image=image)
    assert sorted(after.cluster.controllers) == [ACTIVE]
    again = decide(after, GONE, ACTIVE)
    assert (again.response, list(again.records)) == (False, [])


def test_one_that_was_never_registered_is_not_known() -> None:
    assert not decide(cluster(), STRANGER, ACTIVE).response


@pytest.mark.parametrize("controller_id", [GONE, STRANGER])
def test_a_cluster_of_an_older_release_does_not_forget(controller_id: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decide(cluster(FIRST_METADATA_VERSION - 1), controller_id, ACTIVE)


@pytest.mark.parametrize("level", [FIRST_METADATA_VERSION - 1, FIRST_METADATA_VERSION])
def test_the_active_controller_does_not_forget_itself(level: int) -> None:
    with pytest.raises(InvalidRequest):
        decide(cluster(level), ACTIVE, ACTIVE)
