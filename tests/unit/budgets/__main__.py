"""`python -m tests.unit.budgets` prints the table as it is now; with `instructions`, these too, in some two minutes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.unit.budgets.measure import TABLE, costs, imported_by_a_start, instructions, ours, play
from tests.unit.budgets.scenes import SCENES


def main(arguments: list[str]) -> None:
    match arguments:
        case ["scenes", path]:  # started by `instructions` under valgrind
            names = [name for scene in SCENES for name in asyncio.run(play(scene))]
            Path(path).write_text("\n".join(names))
        case []:
            _print({})
        case ["instructions"]:
            _print(instructions())
        case _:
            sys.exit(str(__doc__))


def _print(counted: dict[str, int]) -> None:
    for name, row in TABLE["start"].items():
        with tempfile.TemporaryDirectory() as folder:
            modules = imported_by_a_start(Path(folder, "data"), *row["settings"])
        counts = f"modules = {len(modules)}, ours = {len(ours(modules))}"
        sys.stdout.write(f'"{name}" = {{ settings = {row["settings"]}, {counts} }}\n')
    for scene in SCENES:
        for name, walk in asyncio.run(costs(scene)).walks.items():
            more = f", instructions = {counted[name]:_}" if name in counted else ""
            sys.stdout.write(f'"{name}" = {{ files = {len(walk.files)}, calls = {walk.calls.total()}{more} }}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
