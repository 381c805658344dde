"""Walking over the batches in a file of the metadata log, with all that can be checked of them.

Nothing is ever removed from the middle of this log: offsets follow each other without a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from controller.quorum.errors import DamagedError
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from storage.files import File
from storage.log.segment_recovery import whole_batches


def good_batches(file: File, start: int, offset: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each batch from position `start`, whose first offset is `offset`.

    Stops at the first that is not whole, does not match its CRC, or has another offset than the one that is due.
    """
    for position, header, batch in whole_batches(file, start, file.size()):
        whole = header.magic == MAGIC and header.record_count > 0 and header.last_offset_delta >= 0
        if not whole or header.base_offset != offset or not check_crc(batch, 0, header):
            return
        yield position, header, batch
        offset = header.next_offset


def has_batch_after(data: bytes, offset: int) -> bool:
    """Whether there is a whole batch somewhere in `data`, of records from `offset` on.

    `data` follows the last good batch. One batch at a time is written, and synced before the next. So if power fails,
    one batch may be torn, the last; but if others follow the bad bytes, these bytes were damaged later.
    """
    longest_match = HEADER_SIZE + len(data)
    prefixes = {first.to_bytes(8)[:5] for first in (offset, offset + longest_match)}
    for prefix in prefixes:
        for match in re.finditer(b"(?=" + re.escape(prefix) + rb".{11}\x02)", data, re.DOTALL):
            at = match.start()
            if at + HEADER_SIZE > len(data):
                continue
            header = read_header(data, at)
            later = offset <= header.base_offset <= offset + longest_match
            if later and HEADER_SIZE <= header.size <= len(data) - at and check_crc(data, at, header):
                return True
    return False


def damaged(path: str, position: int, offset: int) -> DamagedError:
    """The error of a file that has no good batch where one must be."""
    return DamagedError(
        f"{path} is damaged: there is no whole batch at position {position}, where offset {offset} should be, though "
        "what was there has been on disk. Restore the folder from a backup, or give up what follows with "
        "`odradek log repair`."
    )
