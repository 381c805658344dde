"""Compiled texts are kept in a file; what is wrong with it costs time and nothing else."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from protocol import compiled
from protocol.compiled import Texts, _digest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def writing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def value(texts: Texts, text: str) -> object:
    return eval(texts.code(text, "eval"))


def texts_of(path: Path) -> set[str]:
    """Those of the numbers below ten that a file has."""
    kept = begun(path)
    return {text for text in "0123456789" if _digest(text) in kept._index and value(kept, text) == int(text)}


def begun(path: Path) -> Texts:
    texts = Texts()
    texts.begin(str(path))
    return texts


def test_a_text_is_compiled_by_the_first_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "texts"
    first = begun(path)
    assert value(first, "1 + 1") == 2
    first.keep(str(path))
    second = begun(path)
    monkeypatch.setattr(compiled, "compile", None, raising=False)  # a global comes before the built-in function
    assert value(second, "1 + 1") == 2
    with pytest.raises(TypeError):
        value(second, "1 + 2")


def test_what_several_processes_have_compiled_is_together_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    one, other = begun(path), begun(path)
    for texts, text in ((one, "1"), (other, "2")):
        value(texts, text)
        texts.keep(str(path))
    assert texts_of(path) == {"1", "2"}
    assert os.listdir(tmp_path) == ["texts"]


def damaged(version: str = sys.version, **codes: Any) -> bytes:
    """A file with these codes at the places of these texts, all of which are at its end."""
    head = marshal.dumps((version, {_digest(text[1:]): (0, 1000) for text in codes}))
    return len(head).to_bytes(4, "big") + head + b"".join(marshal.dumps(code) for code in codes.values())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff\xff\xff no index",
        (5).to_bytes(4, "big") + marshal.dumps(1),
        (1000).to_bytes(4, "big") + marshal.dumps((sys.version, [1])),
        damaged("another Python", _1=compile("2", "", "eval")),
        damaged(_1=compile("2", "", "eval"))[:-10],
        damaged(_1="no code")[:-7],
    ],
)
def test_a_file_that_is_damaged_or_another_pythons_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "texts"
    path.write_bytes(content)
    texts = begun(path)
    assert value(texts, "1") == 1
    texts.keep(str(path))
    assert texts_of(path) == {"1"}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    texts = begun(tmp_path / "none" / "texts")
    assert value(texts, "1") == 1
    texts.keep(str(tmp_path / "none" / "texts"))
    assert os.listdir(tmp_path) == []


def test_a_file_with_too_many_texts_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_TEXTS", 2)
    path = tmp_path / "texts"
    for texts, text in zip([begun(path), begun(path), begun(path)], "123", strict=True):
        value(texts, text)
        texts.keep(str(path))
    assert texts_of(path) == {"3"}


def test_without_a_file_nothing_is_noted() -> None:
    texts = Texts()
    assert value(texts, "1") == 1
    assert texts._new is None


def test_the_nodes_program_compiles_no_dataclass_twice(tmp_path: Path) -> None:
    """With a folder of its own for what Python keeps, a second start has everything from the first."""
    program = (
        "import sys, broker.__main__ as program, broker.node\n"
        "from protocol import compiled\n"
        "print(len(compiled.texts._new)); compiled.keep()"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    counts = [
        int(subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert counts[0] > 500
    assert counts[1] == 0


def test_a_fork_that_has_closed_its_descriptors_reads_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "texts"
    first = begun(path)
    value(first, "1")
    first.keep(str(path))
    texts = begun(path)
    monkeypatch.setattr(compiled, "texts", texts)
    monkeypatch.setattr(compiled, "_file", lambda: str(path))
    os.close(texts._file)
    (tmp_path / "other").write_bytes(bytes(100_000))
    other = os.open(tmp_path / "other", os.O_RDONLY)
    assert other == texts._file  # what has the number now
    compiled.begin_in_fork()
    assert value(texts, "1") == 1
    assert texts._new == {}
    os.close(other)
