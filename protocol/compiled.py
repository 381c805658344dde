"""Python code that is made from text at run time: compiled once for all starts, and kept in a file.

A dataclass has the source of its methods written and compiled whenever its class is made, a named tuple too, and our
own readers and writers are source as well. Together these were 40 % of the instructions of a start. What a text is
compiled to depends on nothing but the text and Python's version. So it is kept beside what Python itself keeps of our
modules, in `__pycache__`, by the text: there is nothing in it that could be out of date.

Only a program that calls `begin` has a file. Whatever is wrong with it, or with its folder, costs time and nothing
else: then the texts are compiled, as ever.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import marshal
import os
import sys
from types import CodeType
from typing import Any

MOST_TEXTS = 5_000
"""A file with more is begun anew, with the texts of one process: those of old versions would stay for ever."""
UNREADABLE = (OSError, ValueError, EOFError, TypeError)


class Texts:
    """Compiled texts. Those of the file are bytes until they are used; what was used by then, `keep` forgets."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._used: set[str] = set()
        self._new: dict[str, bytes] | None = None
        self._is_damaged = False

    def begin(self, path: str) -> None:
        """Take what a file has; from now on new texts are noted."""
        self._kept, self._new = _read(path), {}

    def code(self, text: str, mode: str) -> CodeType:
        """Compile, unless the file has it."""
        kept = self._kept.get(text)
        if kept is not None:
            self._used.add(text)
            try:
                return _code(kept)
            except UNREADABLE:
                self._is_damaged = True
        code: CodeType = compile(text, "<string>", mode, dont_inherit=True)
        if self._new is not None:
            self._new[text] = marshal.dumps(code)
        return code

    def keep(self, path: str) -> None:
        """Write what is new, together with what is in the file by now, if its folder lets us. Blocking, any thread."""
        used, self._used = self._used, set()
        for text in used:
            self._kept.pop(text, None)
        if not self._new or sys.dont_write_bytecode:
            return
        new, self._new = self._new, {}
        kept = {} if self._is_damaged else _read(path)
        if new.keys() <= kept.keys():
            return
        kept |= new
        unfinished = f"{path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            try:
                with open(unfinished, "xb") as file:
                    file.write(marshal.dumps((sys.version, new if len(kept) > MOST_TEXTS else kept)))
                os.replace(unfinished, path)
            except OSError:
                os.unlink(unfinished)


def _code(kept: bytes) -> CodeType:
    code: CodeType = marshal.loads(kept)
    return code


def _read(path: str) -> dict[str, bytes]:
    with contextlib.suppress(*UNREADABLE), open(path, "rb") as file:
        version, kept = marshal.loads(file.read())
        if version == sys.version and isinstance(kept, dict):
            return kept
    return {}


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


def keep() -> None:
    """Keep what was compiled anew. Blocking, any thread."""
    texts.keep(_file())


def _file() -> str:
    assert __spec__ is not None
    return os.path.join(os.path.dirname(__spec__.cached or ""), f"texts.{sys.implementation.cache_tag}.marshal")
