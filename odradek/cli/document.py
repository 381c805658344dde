"""`python -m odradek.cli.document`: writes docs/command-line.md, the help of each command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from odradek.cli.main import NodeCommand, odradek

FILE = Path(__file__).parents[2] / "docs" / "command-line.md"
WIDTH = 100
HEAD = """\
# The command line

`odradek serve` and the tools for a broker's own files (`log`, `format`, `metadata`) are described in
[operations.md](operations.md). The commands on this page are clients of a cluster, of Odradek or any other Kafka. They
need two client libraries, confluent-kafka and kafka-python (the path is that of a
checkout or a wheel: Odradek is on no package index):

```
pip install '/path/to/odradek[cli]'
```

The cluster is that of `-b`, of `--context`, of `$ODRADEK_CONTEXT`, of the current context, of `$ODRADEK_BOOTSTRAP`, or
else 127.0.0.1:9092. `-X` takes the settings of librdkafka: `-X security.protocol=SASL_SSL -X sasl.username=app`.
Others can read the arguments of a process, so passwords are better kept in a context
(`odradek contexts add NAME HOST:PORT --password`). `--json` prints one JSON document; `consume` prints an object on
each line.

A command that the cluster refuses has the exit status 1, one with wrong arguments 2. Where one of several things is
refused, the others are done. A person is asked before something is deleted, unless `-y` is given; a program is not.

`registry` asks a schema registry, Odradek's own ([registry.md](registry.md)) or another with Confluent's interface, and
needs no client library. Its settings begin with `schema.registry.`, and may be in a context like the others.

Commands and options may also have the names of Kafka's scripts, kcat and rpk where these mean the same: `odradek topics
--create --topic orders`, `odradek groups seek billing --to start`, `odradek consume -C -t orders -o -5 -e`. Where not,
the error says what to write. As with Kafka's script, `groups --reset-offsets` only plans without `--execute`.

`groups` takes groups of every kind. A share group has no committed offsets, but a start in each partition: what is
below it is done.

`check` is for monitors: one line, the figures behind a `|`, and the exit status of a Nagios plugin: 0 well, 1 warning,
2 critical, 3 not known. `odradek check lag billing --warning 1000 --critical 10000`.

`explain` and `backup create` without `-b` and `--context` ask the control interface of the test kit, `doctor` looks at
this machine, and `users` with `--set log.dirs=FOLDER` works on the folders of a broker that is stopped. These ways need
no client library.

`odradek completion bash` (`zsh`, `fish`) prints the completion of a shell.

This page is written by `python -m odradek.cli.document`.
"""


def text() -> str:
    """The whole page."""
    root = click.Context(odradek, info_name="odradek", max_content_width=WIDTH, terminal_width=WIDTH)
    return HEAD + "".join(_sections(odradek, root, 2))


def _sections(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    yield f"\n{'#' * level} {ctx.command_path}\n\n```\n{command.get_help(ctx)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None and not isinstance(inner, NodeCommand):
                below = click.Context(inner, ctx, name, max_content_width=WIDTH, terminal_width=WIDTH)
                yield from _sections(inner, below, level + (level < 4))


if __name__ == "__main__":
    FILE.write_text(text())
