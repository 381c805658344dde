"""The checks of a batch's records, apart from Kafka's answers (`test_validator_answers`)."""

from __future__ import annotations

import tracemalloc

from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.log.record_checks import Checked, check_records


def test_many_records_of_a_rare_shape_take_no_memory() -> None:
    """A small compressed batch may unpack to millions of them: kept, they would take twenty times their size."""
    count = 20_000
    many = [Record(number, 0, None, b"") for number in range(count - 1)]
    batch = build_batch([*many, Record(count - 1, 2**40, None, b"")])
    section = bytes(batch[HEADER_SIZE:])
    tracemalloc.start()
    checked = check_records(read_header(batch), section, LogConfig(), 2**40, "t-0", partial=True, compressed=True)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert checked == Checked(2**40, sequential=True)
    assert most < len(section)
