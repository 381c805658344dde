"""Entities made quickly are those that the constructor makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.offset_commit.v9 import OffsetCommitResponse

from protocol.api.messages import newest_response
from protocol.api.row import Api
from protocol.schema import default_entity, maker
from tests.unit.protocol.conftest import Generator
from tests.unit.protocol.every_version import every_api


@every_api
def test_made_quickly_it_is_the_same(api: Api, generator: Callable[[object], Generator]) -> None:
    cls = newest_response(api)
    given = generator(api.key).entity(cls)
    made = maker(cls)(**{field.name: getattr(given, field.name) for field in dataclasses.fields(cls)})
    assert type(made) is cls
    assert made == given


@every_api
def test_what_is_left_out_has_its_default(api: Api) -> None:
    cls = newest_response(api)
    without_default = {
        field.name: getattr(default_entity(cls), field.name)
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING
    }
    assert maker(cls)(**without_default) == cls(**without_default)


def test_it_is_checked_and_frozen_as_ever() -> None:
    make: Any = maker(OffsetCommitResponse)
    with pytest.raises(TypeError, match="topics"):
        make(throttle_time=None)
    with pytest.raises(TypeError, match="partitions"):
        make(throttle_time=None, topics=(), partitions=())
    made = make(throttle_time=None, topics=())
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.topics = ()
