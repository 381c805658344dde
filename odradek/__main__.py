"""The console script. A command that is the node's becomes it at once; all others are in `odradek/cli`."""

from __future__ import annotations

import io
import os
import sys

from odradek.location import NODE_COMMANDS, become_the_node

COMPLETION = "_ODRADEK_COMPLETE"
"""The environment variable by which a shell asks for completions."""


def main() -> int:
    """Run the command; a wrong one has the exit status 2, and `serve` has that of the broker."""
    if COMPLETION not in os.environ and sys.argv[1:2] and sys.argv[1] in NODE_COMMANDS:
        become_the_node(sys.argv[1:])
    from odradek import terminal

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: what cannot be written is escaped
    terminal.guard()
    from odradek.cli.main import main as command_line

    with terminal.output_that_may_fail():
        return command_line(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
