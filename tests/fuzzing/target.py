"""What a fuzz target is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True, slots=True)
class Target:
    """A reader of bytes that others made.

    `read` gets the bytes. `refusals` are the errors that it may raise. `seeds` are good inputs to begin with.
    """

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]

    def try_out(self, data: bytes) -> bool:
        """Whether the bytes were taken, and not refused. Raises what `read` must not."""
        try:
            self.read(data)
        except self.refusals:
            return False
        return True

    def corpus(self) -> Iterator[bytes]:
        """The inputs that are kept."""
        for path in sorted((CORPUS / self.name).glob("*")):
            yield path.read_bytes()
