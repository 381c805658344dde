"""Text for a terminal: clients choose keys, values and names, and brokers the texts of errors.

A terminal obeys control characters: they write to the clipboard, rewrite lines, or have it answer as if typed. Others
turn the direction of writing, or are not seen. On a terminal they are written as escapes, whatever prints them; a
file or a pipe gets every byte. The launcher runs this file by its path: it imports nothing of ours.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unicodedata import combining, east_asian_width

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""All but line feeds and tabs, and joiners, which belong to words and emoji."""


def visible(text: str) -> str:
    """A text of several lines without what a terminal would obey or not show."""
    return _UNSEEN.sub(lambda match: escaped(match[0]), text)


def printable(text: str) -> str:
    """A name, on one line: also its line feeds, and spaces and joiners that look like others, are escapes."""
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else escaped(character) for character in text)
    )


def escaped(character: str) -> str:
    """Such as `\\x1b` and `\\u202e`."""
    return character.encode("unicode_escape").decode()


def columns_of(text: str) -> int:
    """The columns of a terminal that a printable text takes: letters of East Asia take two, combining accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def beginning(text: str, columns: int) -> str:
    """As much of a text as these columns have room for."""
    while columns_of(text) > columns:
        text = text[: -max((columns_of(text) - columns) // 2, 1)]
    return text


@contextmanager
def output_that_may_fail() -> Iterator[None]:
    """End with an error, and not as a bug, if what is printed cannot be written, such as to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where what is left in a buffer goes
        raise SystemExit(1) from None


class Terminal(io.TextIOWrapper):
    """Standard output or error that is a terminal."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


def guard() -> None:
    """Have all that this process prints on a terminal be `visible`. `sys.__stderr__` stays as it is, for our own
    progress on one line.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            setattr(sys, name, Terminal(stream.buffer, stream.encoding, "backslashreplace", write_through=True))
