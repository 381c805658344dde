"""The committed transcripts: one JSON file per API, answers that versions share kept once.

{scenario: {step: [[versions, answer], ...]}}, versions as "3-8,11"."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"
Transcript = dict[str, Any]


def load(api: str) -> dict[str, dict[int, Transcript]]:
    """scenario -> version -> transcript."""
    path = FOLDER / f"{api}.json"
    if not path.exists():
        return {}
    out: dict[str, dict[int, Transcript]] = {}
    for name, steps in json.loads(path.read_text()).items():
        by_version = out.setdefault(name, {})
        for step, answers in steps.items():
            for versions, answer in answers:
                for version in expand(versions):
                    by_version.setdefault(version, {})[step] = answer
    return out


@functools.cache
def load_cached(api: str) -> dict[str, dict[int, Transcript]]:
    return load(api)


def save(api: str, transcripts: dict[str, dict[int, Transcript]]) -> None:
    """Stable order, one line per distinct answer."""
    lines = []
    for name in sorted(transcripts):
        steps: dict[str, list[tuple[list[int], str]]] = {}
        for version in sorted(transcripts[name]):
            for step, answer in transcripts[name][version].items():
                text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
                answers = steps.setdefault(step, [])
                same = next((versions for versions, known in answers if known == text), None)
                if same is None:
                    answers.append(([version], text))
                else:
                    same.append(version)
        body = ",\n".join(
            f" {json.dumps(step)}:[\n" + ",\n".join(f'  ["{ranges(v)}",{text}]' for v, text in answers) + "]"
            for step, answers in steps.items()
        )
        lines.append(f"{json.dumps(name)}:{{\n{body}}}")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{api}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def ranges(versions: list[int]) -> str:
    """[3, 4, 5, 9] -> "3-5,9"."""
    out: list[list[int]] = []
    for v in sorted(versions):
        if out and out[-1][1] == v - 1:
            out[-1][1] = v
        else:
            out.append([v, v])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def expand(text: str) -> list[int]:
    """ "3-5,9" -> [3, 4, 5, 9]."""
    spans = [part.split("-") for part in text.split(",")]
    return [v for span in spans for v in range(int(span[0]), int(span[-1]) + 1)]


def differences(expected: Any, got: Any, path: str = "") -> list[str]:
    """Readable lines `path: expected X, got Y`; none if alike."""
    if isinstance(expected, dict) and isinstance(got, dict):
        out = []
        for key in list(expected) + [k for k in got if k not in expected]:
            where = f"{path}.{key}" if path else key
            if key not in got:
                out.append(f"{where}: expected {_short(expected[key])}, got nothing")
            elif key not in expected:
                out.append(f"{where}: expected nothing, got {_short(got[key])}")
            else:
                out += differences(expected[key], got[key], where)
        return out
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return [
            line
            for i, (e, g) in enumerate(zip(expected, got, strict=True))
            for line in differences(e, g, f"{path}[{i}]")
        ]
    return (
        []
        if expected == got and type(expected) is type(got)
        else [f"{path}: expected {_short(expected)}, got {_short(got)}"]
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + f"... ({len(text)} characters)"
