"""Names of subjects, and the contexts that they may begin with.

A context is a registry of its own, with its own ids: the subject `orders-value` in the context `.sales` is
`:.sales:orders-value`. Without such a prefix a subject is in the default context, whose name is a dot. Levels and modes
may be set for a whole context, by a subject with an empty name, and for all of them by the context `.__GLOBAL`.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.registry.errors import Code, RegistryError

DEFAULT = "."
GLOBAL = ":.__GLOBAL:"
ANY = ":*:"
"""As a prefix: subjects of any context."""

_RESERVED = ("__GLOBAL", "__EMPTY")
_SUFFIXES = ("-key", "-value")


class Subject(NamedTuple):
    """A subject's context, and its name there."""

    context: str
    name: str

    @property
    def prefix(self) -> str:
        """How names in this context begin."""
        return "" if self.context == DEFAULT else f":{self.context}:"

    @property
    def text(self) -> str:
        return self.prefix + self.name

    @property
    def is_default_context(self) -> bool:
        """Whether it stands for the default context itself."""
        return self.context == DEFAULT and not self.name


def parse(text: str) -> Subject:
    """The subject with this name."""
    if text.startswith(":."):
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    if text.startswith(ANY):
        return Subject("*", text[len(ANY) :])
    return Subject(DEFAULT, text)


def normalized(text: str) -> str:
    """The one way to write a subject: without the default context."""
    return parse(text).text


def context_prefix(text: str) -> str:
    """How subjects begin below `/contexts/CONTEXT`; empty for the default context. Raises RegistryError."""
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise RegistryError(Code.BAD_REQUEST, f"Context name '{name[:100]}' cannot contain a colon")
    return Subject(name if name.startswith(".") else f".{name}", "").prefix


def in_context(prefix: str, text: str) -> str:
    """A subject, or the beginning of some, in this context unless it names one itself."""
    return text if text.startswith((":.", ANY)) else prefix + text


def referred(text: str, by: str) -> str:
    """The subject that a reference names, which without a context is in that of the schema that refers to it."""
    found = parse(text)
    return found.text if found.context != DEFAULT else Subject(parse(by).context, text).text


def is_valid(text: str, *, for_setting: bool = False) -> bool:
    """Whether a subject may have this name. Only levels and modes are set for the context of all contexts."""
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text):
        return False
    found = parse(text)
    return found.name not in _RESERVED and (for_setting or found.prefix != GLOBAL)


def topic_of(text: str) -> str:
    """The topic whose rights count for a subject; the whole name where it is none of a topic's key or value."""
    name = parse(text).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name[: -len(suffix)]
    return name


def matches(text: str, scope: str | None) -> bool:
    """Whether a subject is this one, or is in this context; None and the context of all contexts are for all."""
    if scope is None or scope in (text, GLOBAL):
        return True
    wanted = parse(scope)
    return not wanted.name and wanted.context == parse(text).context
