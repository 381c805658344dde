"""The records of a share partition that are in flight: a state machine without a clock, files or network.

The records from the start offset to the end offset are in flight; those before are done, those after were never
acquired. They are kept as runs of neighbours that share a state, a member and a count of deliveries.

| what happens           | available             | acquired                              | archiving | final |
|------------------------|-----------------------|---------------------------------------|-----------|-------|
| acquire                | acquired, count + 1   | -                                     | -         | -     |
| accept                 | 121                   | acknowledged                          | 121       | 121   |
| release                | 121                   | available; at the limit as for reject | 121       | 121   |
| reject                 | 121                   | archiving; archived without a queue   | 121       | 121   |
| gap                    | 121                   | archived                              | 121       | 121   |
| renew                  | 121                   | acquired with a new lock              | 121       | 121   |
| lock ends, member goes | -                     | as for release                        | -         | -     |
| limit is lowered       | as for reject         | -                                     | -         | -     |
| log has it no more     | archived              | -                                     | -         | -     |
| letter is written      | -                     | -                                     | archived  | -     |
| log start moves past   | gone                  | gone                                  | gone      | gone  |

Final are acknowledged and archived; 121 is INVALID_RECORD_STATE.
An acknowledgement by another member than the one that acquired the record is 121 too. Whatever leaves
`acquired` is a `RunsChange`: it holds once it is persisted (`commit`), or is undone if that fails (`roll_back`), and
its records take no other change meanwhile. Final records at the front move the start offset; this and the acquisitions
are not persisted by themselves (Kafka's `SharePartition`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from broker.share.runs import AcknowledgeType, Acquired, LetterCause, RecordState, Rules, Run, RunsChange, Wish
from protocol.coordinator_records.share_records import StateBatch
from protocol.errors import InvalidRecordState, InvalidRequest


class InFlight:
    """The records of a share partition that are in flight.

    Attributes:
        start_offset: of the first record that is not final.
    """

    def __init__(self, start_offset: int, batches: Sequence[StateBatch] = ()) -> None:
        """`batches` are what was persisted, in any order; what lies between them was not delivered."""
        self.start_offset = start_offset
        self._runs: list[Run] = []
        for batch in sorted(batches, key=lambda batch: batch.first):
            first = max(batch.first, self.end_offset + 1)
            if first > self.end_offset + 1:
                self._runs.append(Run(self.end_offset + 1, first - 1, RecordState.AVAILABLE))
            if batch.last >= first:
                size = batch.last - first + 1
                self._runs.append(
                    Run(first, batch.last, _persisted(batch.state), batch.delivery_count, batch_size=size)
                )
        self._drop_final()

    @property
    def end_offset(self) -> int:
        """The last offset in flight; one below the start offset if there is none."""
        return self._runs[-1].last if self._runs else self.start_offset - 1

    @property
    def runs(self) -> Sequence[Run]:
        return self._runs

    @property
    def completed(self) -> int:
        """Records in flight that are final, or will be once their change is persisted."""
        return sum(run.count for run in self._runs if run.state.is_final)

    def next_fetch_offset(self) -> int:
        """The first offset that may be acquired."""
        for run in self._runs:
            if run.state is RecordState.AVAILABLE and not run.changing:
                return run.first
        return self.end_offset + 1

    def can_acquire(self, rules: Rules) -> bool:
        """Whether there may be something to acquire, if the log has it."""
        end_offset = self.end_offset
        return self.next_fetch_offset() <= end_offset or end_offset - self.start_offset + 1 < rules.max_locks

    # -- acquiring

    def acquire(
        self, member_id: str, batches: Sequence[tuple[int, int]], wish: Wish, rules: Rules, now_ms: float
    ) -> list[Acquired]:
        """Acquire what is available of the record batches, given by first and last offset, that were read."""
        lock = _Lock(member_id, now_ms + rules.lock_ms)
        acquired: list[Acquired] = []
        if not batches:
            return acquired
        left = self._acquire_again(lock, batches, wish, rules, acquired)
        if left > 0 and batches[-1][1] > self.end_offset:
            self._acquire_new(lock, batches, left, wish, rules, acquired)
        return acquired

    def _acquire_again(
        self,
        lock: _Lock,
        batches: Sequence[tuple[int, int]],
        wish: Wish,
        rules: Rules,
        acquired: list[Acquired],
    ) -> int:
        """Acquire records in flight that are available, of those that were read.

        Returns how many more are wanted, 0 after a throttled run.
        """
        left, last_read = wish.max_records, batches[-1][1]
        for run in self._between(batches[0][0], last_read):
            if left <= 0:
                break
            if run.state is not RecordState.AVAILABLE or run.changing:
                continue
            part = run.most_at_once(rules.max_deliveries)
            if part is not None and part == 1 and acquired:
                break  # the last attempt is made with one record alone
            size = min(run.count, part or run.count, left if wish.exact else run.count, last_read - run.first + 1)
            if size < run.count:
                self._split(run, run.first + size)
            lock.take(run)
            acquired.append(Acquired(run.first, run.last, run.delivery_count))
            left -= size
            if part is not None:
                return 0
        return left

    def _acquire_new(
        self,
        lock: _Lock,
        batches: Sequence[tuple[int, int]],
        left: int,
        wish: Wish,
        rules: Rules,
        acquired: list[Acquired],
    ) -> None:
        """Acquire records beyond the end offset; a record batch that crosses a limit comes whole unless exact."""
        room = rules.max_locks - (self.end_offset - self.start_offset + 1)
        wanted = min(left, room)
        if room <= 0:
            return
        first = self._past_hole(batches[0][0])
        for index, (_, batch_last) in enumerate(batches):
            if batch_last < first:
                continue
            last = batch_last
            size = last - first + 1
            if wish.exact and size >= left:
                last = first + left - 1
            is_end = last - first + 1 >= wanted or index == len(batches) - 1
            if is_end or (not wish.exact and size >= wish.batch_size):
                run = Run(first, last, RecordState.AVAILABLE, batch_size=last - first + 1)
                self._runs.append(run)
                lock.take(run)
                acquired.append(Acquired(first, last, run.delivery_count))
                if last < batch_last:
                    self._runs.append(Run(last + 1, batch_last, RecordState.AVAILABLE))
                wanted -= run.count
                left -= run.count
                first = last + 1
            if wanted <= 0:
                return

    def _past_hole(self, first: int) -> int:
        """The first offset to acquire of what is not in flight; what the log lacks before `first` is done."""
        begin = self.end_offset + 1
        if begin >= first:
            return begin
        self._runs.append(Run(begin, first - 1, RecordState.ARCHIVED))
        self._drop_final()
        return first

    # -- acknowledging

    def acknowledge(
        self,
        member_id: str,
        ranges: Sequence[tuple[int, int, Sequence[AcknowledgeType]]],
        rules: Rules,
        now_ms: float,
    ) -> RunsChange:
        """Acknowledge ranges of offsets for a member: one type for all of a range, or one for each offset.

        Raises InvalidRequest for offsets that were never acquired, InvalidRecordState if any is not acquired by this
        member; nothing is changed then.
        """
        pieces: list[tuple[int, int, AcknowledgeType]] = []
        done = -1
        for first, last, types in ranges:
            if last < self.start_offset:
                continue
            self._require_delivered(first, last)
            for piece in self._pieces(first, last, types):
                if piece[0] <= done:
                    raise InvalidRecordState(f"Offset {piece[0]} is acknowledged twice in one request.")
                self._require_acquired(member_id, *piece[:2])
                done = piece[1]
                pieces.append(piece)
        change = RunsChange()
        for first, last, kind in pieces:
            for run in self._cut(first, last):
                self._apply(change, run, kind, rules, now_ms)
        return change

    def _pieces(
        self, first: int, last: int, types: Sequence[AcknowledgeType]
    ) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """Ranges with one type each; what is below the start offset is done and left out."""
        begin = max(first, self.start_offset)
        if len(types) == 1:
            yield begin, last, types[0]
            return
        while begin <= last:
            kind, end = types[begin - first], begin
            while end < last and types[end + 1 - first] is kind:
                end += 1
            yield begin, end, kind
            begin = end + 1

    def _require_delivered(self, first: int, last: int) -> None:
        if not self._runs:
            raise InvalidRecordState(f"Offsets {first} to {last} are not acquired: nothing is in flight.")
        if last > self.end_offset:
            raise InvalidRequest(f"Offset {last} was never delivered; the last one that was is {self.end_offset}.")

    def _require_acquired(self, member_id: str, first: int, last: int) -> None:
        for run in self._between(first, last):
            if run.state is not RecordState.ACQUIRED or run.changing or run.member_id != member_id:
                raise InvalidRecordState(f"Offset {max(first, run.first)} is not acquired by member {member_id!r}.")

    def _apply(self, change: RunsChange, run: Run, kind: AcknowledgeType, rules: Rules, now_ms: float) -> None:
        match kind:
            case AcknowledgeType.ACCEPT:
                change.add(run, RecordState.ACKNOWLEDGED)
            case AcknowledgeType.GAP:
                change.add(run, RecordState.ARCHIVED)
            case AcknowledgeType.REJECT:
                change.add(run, rules.given_up, LetterCause.REJECTED)
            case AcknowledgeType.RENEW:
                run.locked_until_ms = now_ms + rules.lock_ms
            case AcknowledgeType.RELEASE:
                change.release(run, rules)

    def acquired(self, member_ids: Collection[str] | None = None, offset: int | None = None) -> list[Run]:
        """Return the runs that are acquired and in no change: of these members or of all, at one offset or at all."""
        runs = [run for run in self._runs if run.state is RecordState.ACQUIRED and not run.changing]
        if member_ids is not None:
            runs = [run for run in runs if run.member_id in member_ids]
        if offset is not None:
            runs = [part for run in runs if run.first <= offset <= run.last for part in self._cut(offset, offset)]
        return runs

    def release(self, runs: Iterable[Run], rules: Rules) -> RunsChange:
        """Release what is acquired: its member has told so, or its session has ended."""
        change = RunsChange()
        for run in runs:
            change.release(run, rules)
        return change

    def release_expired(self, rules: Rules, now_ms: float) -> RunsChange:
        """Release all whose lock has ended."""
        return self.release((run for run in self.acquired() if run.locked_until_ms <= now_ms), rules)

    def give_up_over_limit(self, rules: Rules) -> RunsChange:
        """Give up what is available but was delivered as often as allowed: the limit was lowered meanwhile."""
        change = RunsChange()
        for run in self._runs:
            is_open = run.state is RecordState.AVAILABLE and not run.changing
            if is_open and run.delivery_count >= rules.max_deliveries:
                change.add(run, rules.given_up, LetterCause.TOO_MANY_DELIVERIES)
        return change

    def give_up_missing(self, begin: int, end: int) -> RunsChange:
        """Give up what is available from `begin` on and before `end`: compaction has taken it out of the log."""
        change = RunsChange()
        for run in self._between(begin, end - 1):
            if run.state is RecordState.AVAILABLE and not run.changing:
                for part in self._cut(max(begin, run.first), min(end - 1, run.last)):
                    change.add(part, RecordState.ARCHIVED)
        return change

    def archive(self, runs: Sequence[Run]) -> RunsChange:
        """Archive runs whose dead letters are written, or cannot be."""
        change = RunsChange()
        for run in runs:
            if run.count > 0:
                change.add(run, RecordState.ARCHIVED)
        return change

    def next_expiry_ms(self) -> float | None:
        """When the first lock ends of those that no change is about to end."""
        return min((run.locked_until_ms for run in self.acquired()), default=None)

    def archiving(self) -> list[Run]:
        """The runs whose letters are to be written."""
        return [run for run in self._runs if run.state is RecordState.ARCHIVING]

    # -- the end of a change

    def commit(self, change: RunsChange) -> None:
        """Make the change final: it is persisted."""
        for run, state in change.runs:
            run.state, run.changing, run.member_id = state, False, ""
        self._drop_final()

    def roll_back(self, change: RunsChange) -> None:
        """Undo the change, which could not be persisted: its records are as they were."""
        change.undo()

    def completed_with(self, changes: Sequence[RunsChange]) -> int:
        """How many records in flight are final once the changes are persisted (`deliveryCompleteCount`)."""
        runs = [(run, state) for change in changes for run, state in change.runs]
        return self.completed + sum(run.count for run, state in runs if state.is_final and run.count > 0)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Drop records below: they were deleted from the log."""
        if log_start_offset <= self.start_offset:
            return
        self.start_offset = log_start_offset
        while self._runs and self._runs[0].last < log_start_offset:
            gone = self._runs.pop(0)
            gone.first = gone.last + 1
        if self._runs and self._runs[0].first < log_start_offset:
            self._runs[0].first = log_start_offset
        self._drop_final()

    def _drop_final(self) -> None:
        while self._runs and self._runs[0].state.is_final:
            self.start_offset = self._runs.pop(0).last + 1

    # -- runs

    def _index_of(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=lambda run: run.first) - 1

    def _between(self, first: int, last: int) -> list[Run]:
        """The runs that have any of these offsets."""
        begin = max(0, self._index_of(first))
        runs = self._runs[begin : self._index_of(last) + 1]
        return runs[1:] if runs and runs[0].last < first else runs

    def _cut(self, first: int, last: int) -> list[Run]:
        """Runs of exactly these offsets, all in flight; runs that reach further are split."""
        for offset in (first, last + 1):
            run = self._runs[max(0, self._index_of(offset))]
            if run.first < offset <= run.last:
                self._split(run, offset)
        return self._between(first, last)

    def _split(self, run: Run, offset: int) -> None:
        """Make the records from `offset` on a run of their own."""
        rest = Run(offset, run.last, run.state, run.delivery_count, run.member_id, run.locked_until_ms, run.batch_size)
        run.last = offset - 1
        self._runs.insert(self._index_of(run.first) + 1, rest)


@dataclass(frozen=True, slots=True)
class _Lock:
    member_id: str
    until_ms: float

    def take(self, run: Run) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = self.member_id
        run.locked_until_ms = self.until_ms


def _persisted(state: int) -> RecordState:
    """A state as it was persisted; what nobody holds is available."""
    known = state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED)
    return RecordState(state) if known else RecordState.AVAILABLE
