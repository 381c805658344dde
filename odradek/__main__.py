"""The console script. `odradek serve` and the tools become the broker: same process id and interpreter, isolated."""

from __future__ import annotations

import os
import sys

USAGE = """\
usage: odradek serve [--profile dev|test|kafka] [--config FILE] [--set KEY=VALUE]...   run a broker
       odradek serve --brokers 3 ...                        run a cluster of brokers, a process each
       odradek serve --help                                 every option of the broker
       odradek log dump|verify|repair ...                   inspect or repair the files of a log
       odradek format --cluster-id ID ...                   format the folders of log.dirs, as kafka-storage does
       odradek user add|list|delete ...                     the users of a broker, running or stopped
       odradek metadata dump PATH...                        print the records of a metadata log or snapshot
       odradek explain --group G [--control URL]            why a consumer gets nothing, of a running broker
       odradek snapshot save|load PATH --control URL        keep the state of a running broker, or go back to it
       odradek --version
"""

COMMANDS = ("serve", "log", "format", "user", "metadata", "explain", "snapshot", "--version", "--help")
ALIASES = {"start": "serve", "run": "serve", "server": "serve", "broker": "serve", "logs": "log", "users": "user"}
TOOLS = {
    "topics": "kafka-topics",
    "groups": "kafka-consumer-groups",
    "configs": "kafka-configs",
    "produce": "kafka-console-producer",
    "consume": "kafka-console-consumer",
}
"""What people look for here, and the tool of Kafka's that has it."""


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
        case ["serve" | "log" | "format" | "user" | "metadata", *_] as arguments:
            from odradek import location

            try:
                program = location.command(arguments)
            except location.NotInstalledError as error:
                sys.stderr.write(f"Error: {error}\n")
                return 1
            os.execve(program[0], program, location.environment(dict(os.environ)))
        case ["explain", *arguments]:
            from odradek import explain_command

            return explain_command.main(arguments)
        case ["snapshot", *arguments]:
            from odradek import snapshot_command

            return snapshot_command.main(arguments)
        case []:
            sys.stderr.write(USAGE)
        case [wrong, *_]:
            sys.stderr.write(f"Error: there is no command {wrong!r}{_nearest(wrong)}\n{USAGE}")
    return 2


def _nearest(wrong: str) -> str:
    import difflib

    if wrong in TOOLS:
        return f": Kafka's own tools do that, for instance {TOOLS[wrong]}.sh --bootstrap-server 127.0.0.1:9092"
    near = difflib.get_close_matches(wrong, (*COMMANDS, *ALIASES), n=1, cutoff=0.5)
    return f"; did you mean {ALIASES.get(near[0], near[0])}?" if near else ""


if __name__ == "__main__":
    raise SystemExit(main())
