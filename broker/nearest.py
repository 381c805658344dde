"""The name that was probably meant, for what is said about one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], *, closeness: float = 0.6, as_sentence: bool = False) -> str:
    """`; did you mean NAME?`, or ` Did you mean NAME?`; empty if no known name is near. `closeness` is 0 to 1."""
    import difflib  # not needed when every name is known

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=closeness)
    if not near:
        return ""
    return f"{' Did' if as_sentence else '; did'} you mean {near[0]}?"
