"""The console script. `odradek serve` and the tools become the broker: same process id and interpreter, isolated."""

from __future__ import annotations

import io
import os
import sys

from odradek import terminal

USAGE = """\
usage: odradek serve [--profile dev|test|kafka] [--config FILE] [--set KEY=VALUE]...   run a broker
       odradek serve --brokers 3 ...                        run a cluster of brokers, a process each
       odradek serve --help                                 every option of the broker
       odradek log dump|verify|repair ...                   inspect or repair the files of a log
       odradek format --cluster-id ID ...                   format the folders of log.dirs, as kafka-storage does
       odradek user add|list|delete ...                     the users of a broker, running or stopped
       odradek metadata dump PATH...                        print the records of a metadata log or snapshot
       odradek explain group|topic|transaction NAME -b HOST:PORT
                                                            why a consumer gets nothing (extra: cli)
       odradek explain error|setting NAME                   what an error or a setting means
       odradek doctor [--config FILE] [--set KEY=VALUE]...  what would keep a broker from running well here
       odradek doctor -b HOST:PORT                          what keeps clients here from a cluster (extra: cli)
       odradek backup create PATH -b HOST:PORT              a consistent copy of a running broker (extra: cli)
       odradek backup verify PATH                           whether a copy is whole
       odradek backup restore PATH                          go back to a copy, by the control interface of a broker
       odradek snapshot save|load PATH                      keep the state of a running broker, or go back to it
       odradek topics|groups|acls|users|quotas|transactions|reassign|contexts ...
       odradek produce|consume|bench|cluster|completion ... work with a cluster, this or any other (extra: cli)
       odradek COMMAND --help                               what a command takes
       odradek --version
"""

COMPLETION = "_ODRADEK_COMPLETE"
"""The environment variable by which a shell asks for completions."""
OWN = ("serve", "log", "format", "user", "metadata", "explain", "doctor", "backup", "snapshot")
"""The commands that are no clients of a cluster, and take none of their options."""
CLUSTER_OPTIONS = ("-b", "--bootstrap", "--context")
"""With one of these, `doctor`, `explain` and `backup create` are clients of a cluster."""
ALIASES = {"start": "serve", "run": "serve", "server": "serve", "broker": "serve", "logs": "log", "configs": "topics"}


def main() -> int:
    """Run the command; a wrong one has the exit status 2, and `serve` has that of the broker."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: what cannot be written is escaped
    terminal.guard()
    if COMPLETION in os.environ:
        return _of_a_client([])
    match sys.argv[1:]:
        case ["--version" | "-V"]:
            from odradek import __version__

            sys.stdout.write(f"odradek {__version__}\n")
            return 0
        case ["--help" | "-h"]:
            sys.stdout.write(USAGE)
            return 0
        case ["serve" | "log" | "format" | "user" | "metadata", *_] as arguments:
            return _become_the_broker(arguments)
        case ["explain", "error" | "setting", *_] as arguments:
            return _become_the_broker(arguments)
        case ["backup", "verify", *_] as arguments:
            return _become_the_broker(arguments)
        case ["doctor", *more] as arguments if not _is_of_a_client(more):
            return _become_the_broker(arguments)
        case ["explain", *arguments] if not _is_of_a_client(arguments):
            from odradek import explain_command

            return explain_command.main(arguments)
        case ["backup", *arguments] if not _is_of_a_client(arguments):
            from odradek import snapshot_command

            return snapshot_command.backup(arguments)
        case ["snapshot", *arguments]:
            from odradek import snapshot_command

            return snapshot_command.main(arguments)
        case []:
            sys.stderr.write(USAGE)
        case arguments:
            return _of_a_client(arguments)
    return 2


def _is_of_a_client(arguments: list[str]) -> bool:
    return any(one.startswith(CLUSTER_OPTIONS) for one in arguments)


def _become_the_broker(arguments: list[str]) -> int:
    """Go on as the broker's program; return only if there is none."""
    from odradek import location

    try:
        program = location.command(arguments)
    except location.NotInstalledError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    os.execve(program[0], program, location.environment(dict(os.environ)))


def _of_a_client(arguments: list[str]) -> int:
    """Run a command that is a client of a cluster; a wrong one is answered with the nearest."""
    from odradek.cli import main as client
    from odradek.cli.groups_of_commands import wrong_command

    name = arguments[0] if arguments else "-"
    if not name.startswith("-") and name not in (*client.COMMANDS, *client.ALIASES):
        known = (*OWN, *client.COMMANDS)
        sys.stderr.write(f"Error: {wrong_command(name, known, ALIASES)}\nodradek --help says what they do.\n")
        return 2
    return client.main(arguments, OWN)


if __name__ == "__main__":
    raise SystemExit(main())
