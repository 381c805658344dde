"""What the members of a share group got and were answered, and what must hold of it.

The order of two events is known if the one was noted before the other's request was sent; nothing is said of others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import Any

from tests.conformance.share_members import ACCEPT, REJECT

Place = tuple[int, int]
"""Partition and offset."""

NONE = "0 NONE"


@dataclass(frozen=True, slots=True)
class Delivery:
    member: str
    count: int
    sent: float
    noted: float


@dataclass(frozen=True, slots=True)
class Answer:
    """An acknowledgement; `error` is None if none came. `held_since` is when the record was asked for, or renewed."""

    member: str
    kind: int
    held_since: float
    sent: float
    noted: float
    error: str | None


@dataclass
class Ledger:
    """By record, what happened to it. `kills` are the moments in which the broker was killed."""

    lock_seconds: float
    deliveries: dict[Place, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[Place, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    kills: list[float] = field(default_factory=list)

    def read(self, member: str, notes: Iterable[Mapping[str, Any]]) -> None:
        """Take in all that a member noted."""
        asked: dict[int, Mapping[str, Any]] = {}
        for note in notes:
            if "got" in note:
                partition, first, last, count = note["got"]
                for offset in range(first, last + 1):
                    delivery = Delivery(member, count, note["sent"], note["noted"])
                    self.deliveries[partition, offset].append(delivery)
            elif "number" in note:
                asked[note["number"]] = note
        for note in asked.values():
            partition, first, last = note["range"]
            answer = Answer(
                member,
                note["kind"],
                note["held_since"],
                note["sent"],
                note.get("noted", float("inf")),
                note.get("error"),
            )
            for offset in range(first, last + 1):
                self.answers[partition, offset].append(answer)

    def accepted(self) -> dict[Place, list[Answer]]:
        """By record, the acknowledgements with ACCEPT that the broker confirmed."""
        confirmed = {
            place: [answer for answer in answers if answer.kind == ACCEPT and answer.error == NONE]
            for place, answers in self.answers.items()
        }
        return {place: answers for place, answers in confirmed.items() if answers}

    # -- what must hold

    def check(self, ends: Mapping[int, int], letters: set[Place]) -> None:
        """`ends`: end offsets of a topic of which all is done; `letters`: the records in the dead letter queue."""
        for place, deliveries in self.deliveries.items():
            self._check_counts(place, sorted(deliveries, key=lambda delivery: delivery.sent))
        accepted = self.accepted()
        settled = self._settled_below(ends, letters)
        for place, answers in accepted.items():
            if place in letters:
                self._check_given_up(place, answers)
            self._check_accepted(place, answers, settled[place])
        for partition, end in ends.items():
            for offset in range(end):
                self._check_done((partition, offset), letters)

    def _check_counts(self, place: Place, deliveries: Sequence[Delivery]) -> None:
        """Each delivery has a higher count than those before.

        A delivery is not written down before it ends (KIP-932), so a kill -9 may take one back: the next has the same
        count, never a lower one.
        """
        for earlier, later in combinations(deliveries, 2):
            if earlier.noted > later.sent:
                continue
            was_killed = any(earlier.sent < kill < later.noted for kill in self.kills)
            lowest = earlier.count if was_killed else earlier.count + 1
            assert later.count >= lowest, f"{place} was delivered {earlier}, later {later}"

    def _check_accepted(self, place: Place, answers: Sequence[Answer], settled_below: float) -> None:
        """One member alone had it while its acceptance was good, and nobody gets it afterwards.

        Kafka confirms whatever is below the start offset: one who comes too late, after all up to the record was
        settled by others, is told that all is well.
        """
        timely = [one for one in answers if one.noted <= one.held_since + self.lock_seconds]
        late = [one for one in answers if one.noted > one.held_since + self.lock_seconds]
        assert len(timely) <= 1, f"{place} was accepted from several: {timely}"
        if len(answers) > 1:
            accepted = [one for one in late if one.noted <= max(settled_below, self._settled_by_others(place, one))]
            assert len(timely) + len(accepted) <= 1, f"{place} was accepted from several: {answers}"
        first = min(one.noted for one in answers)
        for delivery in self.deliveries[place]:
            assert delivery.sent < first, f"{place} was accepted {answers}, and came again: {delivery}"

    def _check_given_up(self, place: Place, answers: Sequence[Answer]) -> None:
        """All came too late, when somebody else may have rejected the record already: see `_check_accepted`."""
        rejected = min((one.sent for one in self.answers[place] if one.kind == REJECT), default=0.0)
        for one in answers:
            is_late = one.noted > max(one.held_since + self.lock_seconds, rejected)
            assert is_late, f"{place} was accepted {one}, and is in the dead letter queue"

    def _settled_below(self, ends: Mapping[int, int], letters: set[Place]) -> dict[Place, float]:
        """By record, the earliest moment at which all records before it can have been done."""
        found: dict[Place, float] = {}
        for partition, end in ends.items():
            moments = [self._may_be_final((partition, offset), letters) for offset in range(end)]
            found |= {(partition, offset): moment for offset, moment in enumerate(accumulate([0.0, *moments], max))}
        return found

    def _settled_by_others(self, place: Place, answer: Answer) -> float:
        return min(one.sent for one in self.answers[place] if one.kind == ACCEPT and one is not answer)

    def _may_be_final(self, place: Place, letters: set[Place]) -> float:
        asked = [one.sent for one in self.answers.get(place, ()) if one.kind in (ACCEPT, REJECT)]
        given_up = [delivery.sent for delivery in self.deliveries.get(place, ())] if place in letters else []
        return min([*asked, *given_up], default=0.0)

    def _check_done(self, place: Place, letters: set[Place]) -> None:
        """A record that is done was delivered, and somebody said so, or it is in the dead letter queue."""
        if place in letters:
            return
        assert self.deliveries.get(place), f"{place} was never delivered"
        said = [one for one in self.answers.get(place, ()) if one.kind == ACCEPT and one.error in (NONE, None)]
        assert said, f"{place} is done, but nobody accepted it: {self.deliveries[place]}, {self.answers.get(place)}"
