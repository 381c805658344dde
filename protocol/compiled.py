"""Python code that is made from text at run time: compiled once for all starts, and kept in a file.

A dataclass has the source of its methods written and compiled whenever its class is made, a named tuple too, and our
own readers and writers are source as well. Together these were 40 % of the instructions of a start. What a text is
compiled to depends on nothing but the text and Python's version. So it is kept beside what Python itself keeps of our
modules, in `__pycache__`, by the text: there is nothing in it that could be out of date.

The file is an index, from the digest of a text to a place in what follows: what is not used needs no memory. Only a
program that calls `begin` has a file. Whatever is wrong with it, or with its folder, costs time and nothing else: then
the texts are compiled, as ever.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import marshal
import os
import sys
from hashlib import blake2b
from types import CodeType
from typing import Any

MOST_TEXTS = 5_000
"""A file with more is begun anew, with the texts of one process: those of old versions would stay for ever."""
UNREADABLE = (OSError, ValueError, EOFError, TypeError)
STDERR = 2
SIZE_BYTES = 4
"""Those of the index' size, with which the file begins."""

Index = dict[bytes, tuple[int, int]]
"""By digest: where the marshalled code begins, and ends."""


class Texts:
    """Compiled texts."""

    def __init__(self) -> None:
        self._file = -1
        self._index: Index = {}
        self._new: dict[bytes, bytes] | None = None

    def begin(self, path: str) -> None:
        """Use what a file has; from now on new texts are noted."""
        self._new, self._index = {}, {}
        with contextlib.suppress(OSError):
            self._file = _above_standard_descriptors(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            self._index = _index(self._file)

    @property
    def is_begun(self) -> bool:
        return self._new is not None

    def code(self, text: str, mode: str) -> CodeType:
        """Compile, unless the file has it."""
        if self._new is None:
            return _compiled(text, mode)
        digest = _digest(text)
        if (place := self._index.get(digest)) is not None:
            with contextlib.suppress(*UNREADABLE):
                kept: CodeType = marshal.loads(_part(self._file, *place))
                return kept
        code = _compiled(text, mode)
        self._new[digest] = marshal.dumps(code)
        return code

    def keep(self, path: str) -> None:
        """Write what is new, together with what is in the file by now, if its folder lets us. Blocking, any thread."""
        if not self._new or sys.dont_write_bytecode:
            return
        new, self._new = self._new, {}
        kept = _read(path) | new
        with contextlib.suppress(OSError):
            _write(path, new if len(kept) > MOST_TEXTS else kept)


def _above_standard_descriptors(file: int) -> int:
    """The descriptor, or another one in its place: in a process without standard error, log lines go to number 2."""
    if file > STDERR:
        return file
    other = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, STDERR + 1)
    os.close(file)
    return other


def _compiled(text: str, mode: str) -> CodeType:
    code: CodeType = compile(text, "<string>", mode, dont_inherit=True)
    return code


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _part(file: int, start: int, end: int) -> bytes:
    return os.pread(file, end - start, start)


def _index(file: int) -> Index:
    with contextlib.suppress(*UNREADABLE):
        begins = SIZE_BYTES + int.from_bytes(_part(file, 0, SIZE_BYTES), "big")
        version, index = marshal.loads(_part(file, SIZE_BYTES, begins))
        if version == sys.version and isinstance(index, dict):
            return {digest: (begins + start, begins + end) for digest, (start, end) in index.items()}
    return {}


def _read(path: str) -> dict[bytes, bytes]:
    """All codes of a file that can be read."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            codes = {digest: _part(file, *place) for digest, place in _index(file).items()}
            return {digest: code for digest, code in codes.items() if _is_sound(code)}
        finally:
            os.close(file)
    return {}


def _is_sound(code: bytes) -> bool:
    with contextlib.suppress(*UNREADABLE):
        return isinstance(marshal.loads(code), CodeType)
    return False


def _write(path: str, codes: dict[bytes, bytes]) -> None:
    """Replace the file at once. Raises OSError."""
    index: Index = {}
    end = 0
    for digest, code in codes.items():
        index[digest] = end, (end := end + len(code))
    head = marshal.dumps((sys.version, index))
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "xb") as file:
        try:
            file.writelines((len(head).to_bytes(SIZE_BYTES, "big"), head, *codes.values()))
            file.flush()
            os.replace(unfinished, path)
        except OSError:
            os.unlink(unfinished)
            raise


texts = Texts()


def execute(text: str, names: dict[str, Any] | None = None, local: dict[str, Any] | None = None) -> None:
    """Do what exec() does with a text."""
    exec(texts.code(text, "exec"), names, local)  # the callers' own texts


def evaluate(text: str, names: dict[str, Any] | None = None, local: dict[str, Any] | None = None) -> Any:
    """The value that eval() has for a text."""
    return eval(texts.code(text, "eval"), names, local)


def begin() -> None:
    """Use the file, for what dataclasses and named tuples have compiled too."""
    texts.begin(_file())
    for module, name, ours in ((dataclasses, "exec", execute), (collections, "eval", evaluate)):
        setattr(module, name, ours)  # these modules look for a global first, and then for the built-in function


def begin_in_fork() -> None:
    """Open the file anew, in a fork that has closed all descriptors: the number is another file's, some day."""
    if texts.is_begun:
        texts.begin(_file())


def keep() -> None:
    """Keep what was compiled anew. Blocking, any thread."""
    texts.keep(_file())


def _file() -> str:
    assert __spec__ is not None
    return os.path.join(os.path.dirname(__spec__.cached or ""), f"texts.{sys.implementation.cache_tag}.marshal")
