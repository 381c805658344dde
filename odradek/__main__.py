"""The console script. `odradek serve` and `log` become the broker: same process id and interpreter, isolated (-I)."""

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
    """Run the command. Exit status: 0 for `--version` and `--help`, 2 if it is wrong; `serve` replaces this process."""
    match sys.argv[1:]:
        case ["--version" | "-V"]:
            from odradek import __version__

            sys.stdout.write(f"odradek {__version__}\n")
            return 0
        case ["--help" | "-h"]:
            sys.stdout.write(USAGE)
            return 0
        case ["serve" | "log", *_] as arguments:
            # -I: `broker` and `storage` are ours, whatever the current folder or the user's site has of that name.
            os.execv(sys.executable, [sys.executable, "-I", "-m", "broker", *arguments])
        case _:
            sys.stderr.write(USAGE)
            return 2


if __name__ == "__main__":
    raise SystemExit(main())
