"""What was tried while it was verified keeps its place, and is forgotten with its transaction."""

from __future__ import annotations

from storage.producers.producer_entry import KEPT, Verifications


def lowest(tried: Verifications, producer_id: int) -> int | None:
    """The last sequence that is in order; None if every one is."""
    return next((one - 1 for one in range(20) if tried.is_out_of_order(producer_id, one, has_batches=True)), None)


def test_the_lowest_sequence_of_the_newest_epoch_counts() -> None:
    tried = Verifications()
    assert lowest(tried, 7) is None
    for epoch, sequence, expected in ((0, 5, 5), (0, 3, 3), (0, 4, 3), (1, 9, 9), (0, 0, 9), (1, 8, 8)):
        tried.begin(7, epoch, sequence, supports_epoch_bump=False)
        assert lowest(tried, 7) == expected
    assert lowest(tried, 8) is None
    tried.end(7)
    assert lowest(tried, 7) is None


def test_whether_a_strange_producer_starts_at_zero_is_said_by_its_first_attempt() -> None:
    tried = Verifications()
    for producer_id, first in ((7, False), (8, True)):
        tried.begin(producer_id, 0, 3, supports_epoch_bump=first)
        tried.begin(producer_id, 1, 3, supports_epoch_bump=not first)
        assert tried.is_out_of_order(producer_id, 3, has_batches=False) is first
        assert not tried.is_out_of_order(producer_id, 3, has_batches=True)
        assert not tried.is_out_of_order(producer_id, 0, has_batches=False)


def test_a_marker_leaves_what_was_tried_of_the_transaction_that_follows() -> None:
    for is_v2, marker_epoch, expected in ((True, 1, 3), (True, 2, None), (True, 0, None), (False, 1, None)):
        tried = Verifications()
        tried.begin(7, 1, 3, supports_epoch_bump=is_v2)
        tried.end_by_marker(7, marker_epoch)
        tried.end_by_marker(8, marker_epoch)
        assert lowest(tried, 7) == expected


def test_producers_that_are_never_verified_do_not_pile_up() -> None:
    tried = Verifications()
    for producer_id in range(KEPT + 3):
        tried.begin(producer_id, 0, 0, supports_epoch_bump=False)
    known = [one for one in range(KEPT + 3) if lowest(tried, one) is not None]
    assert known == list(range(3, KEPT + 3))


def test_a_guard_holds_until_a_marker_or_a_batch_of_the_producer_comes() -> None:
    tried = Verifications()
    guard = tried.begin(7, 0, 0, supports_epoch_bump=False)
    assert tried.begin(7, 0, 5, supports_epoch_bump=False) == guard
    assert tried.is_guarded(7, guard)
    assert not tried.is_guarded(8, guard)
    tried.end_by_marker(7, 0)
    assert not tried.is_guarded(7, guard)
    later = tried.begin(7, 0, 0, supports_epoch_bump=False)
    assert later != guard
    assert not tried.is_guarded(7, guard)
    tried.end(7)
    assert not tried.is_guarded(7, later)
