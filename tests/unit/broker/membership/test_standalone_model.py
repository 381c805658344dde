"""A standalone node's metadata through any requests, full disks, failing devices, kills, power failures and restarts.

What was acknowledged is there, no request is ever seen by half, and the image replayed from the log is the one before.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from metadata.image import MetadataImage
from tests.doubles.clock import ManualClock
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.broker.membership import requests
from tests.unit.broker.membership.requests import EMPTY, Request, State, state_of
from tests.unit.broker.membership.standalone_process import Call, Process, made_root, started
from tests.unit.storage.support import NOW

NAMES = st.sampled_from(["a", "b", "c.d"])
USERS = st.sampled_from(["u", "v"])
SOME_NAMES = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)
COUNTS = st.integers(1, 4)
VALUES = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "consumer_byte_rate"]), st.none() | st.sampled_from([1.0, 2.0]), min_size=1
)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(requests.create, SOME_NAMES, COUNTS, st.none() | st.sampled_from(["5", "6"])),
    st.builds(requests.delete, SOME_NAMES),
    st.builds(requests.grow, NAMES, COUNTS),
    st.builds(requests.retain, NAMES, st.none() | st.sampled_from(["5", "6"])),
    st.builds(requests.set_quotas, USERS, VALUES),
    st.builds(requests.set_credential, USERS, st.none() | st.sampled_from([4096, 8192])),
    st.builds(requests.take_producer_ids),
    st.builds(requests.set_share_version, st.sampled_from([0, 1])),
)
SEEDS = st.integers(0, 1000)
CHANCES = st.sampled_from([0.1, 0.3, 1.0])
FOR_NOW = (Trouble.ROOM, Trouble.DESCRIPTORS)


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Thousands of recoveries would bury a failure in log lines."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class StandaloneMachine(RuleBasedStateMachine):
    """`known`: the state for sure, and `shown`: those that it has had lately.

    `calls`: the requests of which nothing is known: they are not answered, or failed so that the next start may find
    them or not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(NOW)
        self.fs = FlakyFileSystem(self.clock.wall_ms)
        made_root(self.fs)
        self.known = EMPTY
        self.shown = [EMPTY]
        self.calls: list[Call] = []
        self.device_fails = False
        self.process = started(self.fs, self.clock)

    # -- what is asked

    @rule(
        wanted=st.lists(REQUESTS, min_size=1, max_size=4),
        between=st.sampled_from([None, 0, 1, 2]),
        full=st.booleans(),
        after=st.sampled_from([0, 1, 10_000]),
    )
    def ask(self, wanted: list[Request], between: int | None, full: bool, after: int) -> None:
        """So much work is done between requests, or the loop has no turn, and after them; the disk may become full."""
        for request in wanted:
            self.calls.append(self.process.ask(request))
            if between is not None:
                self.work(between)
        self.process.work(0)
        if full:
            self.trouble(Trouble.ROOM, 1.0, 0)
        self.work(after)

    @rule(count=st.sampled_from([1, 3, 1000]))
    def work(self, count: int) -> None:
        self.process.work(count)
        self.look_at_answers()

    @rule(ms=st.sampled_from([1, 2_000]))
    def time_passes(self, ms: int) -> None:
        """What there was no room for at the start is tried again, as the node does."""
        self.process.run(self.clock.run(ms))
        try:
            self.process.finish(self.process.metadata.retry())
        except MetadataLogError:
            assert self.device_fails
        self.look_at_answers()

    def look_at_answers(self) -> None:
        """They come in the order of the requests; refused ones change nothing, and later ones build on the others."""
        unknown: list[Call] = []
        for call in self.calls:
            error = call.answer.exception() if call.answer.done() else None
            if not call.answer.done():
                unknown.append(call)
            elif error is None:
                assert all(earlier.answer.done() for earlier in unknown)
                assert not unknown or call.before == call.after
                assert call.before == self.known
                self.known = call.after
                self.shown.append(self.known)
            elif not isinstance(error, NoRoomError):
                assert isinstance(error, MetadataLogError)
                assert self.process.failures
                unknown.append(call)
        self.calls = unknown

    def possible(self) -> list[State]:
        """What may be in the log."""
        return [self.known, *(call.after for call in self.calls if call.before is not None)]

    # -- what happens to it

    @rule(trouble=st.sampled_from(Trouble), chance=CHANCES, seed=SEEDS)
    def trouble(self, trouble: Trouble, chance: float, seed: int) -> None:
        """From now on."""
        self.device_fails |= trouble not in (Trouble.NONE, *FOR_NOW)
        self.fs.get_into(trouble, chance, seed)

    @rule(
        how=st.sampled_from(["a stop", "kill -9", "the power fails"]),
        unsynced=st.sampled_from(Unsynced),
        seed=SEEDS,
        trouble=st.sampled_from(Trouble),
        chance=st.sampled_from([0.0, 0.0, 0.3, 1.0]),
    )
    def ends(self, how: str, unsynced: Unsynced, seed: int, trouble: Trouble, chance: float) -> None:
        """It is started again, perhaps in trouble, and if that fails once more without any."""
        if how == "a stop":
            stop = self.process.begin(self.process.metadata.close())
            assert not stop.done() or stop.exception() is None
            self.look_at_answers()
        self.process.end()
        last = self.process.metadata.controller.image
        if how == "the power fails":
            self.fs.crash(unsynced, seed)
        self.fs.forget_failed_syncs()
        self.fs.get_into(trouble, chance, seed)
        self.device_fails = bool(chance) and trouble not in (Trouble.NONE, *FOR_NOW)
        try:
            self.start(last)
        except (OSError, MetadataLogError):
            assert chance
            self.process.end()
            self.fs.chance = 0.0
            self.fs.forget_failed_syncs()
            self.start(last)

    def start(self, last: MetadataImage) -> None:
        self.process = Process(self.fs, self.clock, self.process.rng.randrange(1000))
        self.process.open()
        found = self.process.metadata.controller.image
        assert state_of(found) in self.possible()
        if found.offset == last.offset:
            assert replace(found, timestamp_ms=0) == replace(last, timestamp_ms=0)
        self.known = state_of(found)
        self.shown = [self.known]
        self.calls = []
        self.process.lead()
        broker = self.process.cache.image.cluster.brokers[1]
        assert not broker.fenced
        assert all(p.leader == 1 for topic in self.process.cache.image.topics for _, p in topic.in_order())

    # -- what holds

    @invariant()
    def what_is_shown_is_what_some_request_has_led_to(self) -> None:
        assert self.process.shown in self.possible()
        for image in self.process.seen:
            assert state_of(image) in [*self.shown, *self.possible()]
        self.process.seen.clear()
        self.shown = [self.known]

    @invariant()
    def only_the_device_ends_it(self) -> None:
        """A lack of room or of descriptors does not."""
        assert len(self.process.failures) <= self.device_fails

    def teardown(self) -> None:
        self.process.end()


StandaloneMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStandalone = pytest.mark.long(StandaloneMachine.TestCase)
