"""The console script. `odradek serve` and `log` become the broker: same process id and interpreter, isolated."""

from __future__ import annotations

import os
import sys

USAGE = """\
usage: odradek serve [--config FILE] [--set KEY=VALUE]...   run a broker
       odradek serve --help                                 every option of the broker
       odradek log dump|verify|repair ...                   inspect or repair the files of a log
       odradek --version
"""


def main() -> int:
    """Run the command; a wrong one has the exit status 2, and `serve` has that of the broker."""
    match sys.argv[1:]:
        case ["--version" | "-V"]:
            from odradek import __version__

            sys.stdout.write(f"odradek {__version__}\n")
            return 0
        case ["--help" | "-h"]:
            sys.stdout.write(USAGE)
            return 0
        case ["serve" | "log", *_] as arguments:
            from odradek import location

            try:
                program = location.command(arguments)
            except location.NotInstalledError as error:
                sys.stderr.write(f"Error: {error}\n")
                return 1
            os.execve(program[0], program, location.environment(dict(os.environ)))
        case _:
            sys.stderr.write(USAGE)
            return 2


if __name__ == "__main__":
    raise SystemExit(main())
