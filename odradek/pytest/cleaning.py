"""A broker for one test, as it was before when the test is over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from odradek.cluster.cluster import Cluster
from odradek.controls import Controls
from odradek.process import Broker
from odradek.pytest.options import Options
from odradek.pytest.pool import pool_of
from odradek.topic import Topic

MADE = pytest.StashKey[list[Topic]]()


@contextlib.contextmanager
def cleaned(request: pytest.FixtureRequest, controls: Controls) -> Iterator[Controls]:
    """Delete what the test makes: topics, groups, transactional ids; remove its faults, and reset the clock.

    Of a broker that other processes of the run use only the topics are deleted that fixtures made.
    """
    if Options.of(request.config).shared:
        yield controls
        for topic in made_by(request.node):
            topic.delete()
        return
    mark = controls.mark()
    yield controls
    if not _is_whole(controls):
        pool_of(request.config).note_unclean(controls)
        return  # the test failed for it, or ended it, or is about to; the next one gets a new one
    try:
        controls.reset(mark)
    except BaseException:
        pool_of(request.config).note_unclean(controls)
        raise


def _is_whole(controls: Controls) -> bool:
    if isinstance(controls, Cluster):
        return controls.whole
    return not isinstance(controls, Broker) or (controls.running and not controls.may_end)


def made_by(node: pytest.Item) -> list[Topic]:
    """The topics that fixtures made for a test."""
    return node.stash.setdefault(MADE, [])
