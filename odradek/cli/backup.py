"""`odradek backup create PATH -b HOST:PORT`."""

from __future__ import annotations

import click
from kafka.errors import IncompatibleBrokerVersion

from odradek.cli.connection import Cluster, connected
from odradek.cli.errors import require_no_error
from odradek.cli.groups_of_commands import ClusterCommands
from odradek.cli.messages import CreateBackupRequest
from odradek.cli.output import Output

PATIENCE_S = 3600.0
"""How long a backup may take, at least: its files may have to be copied."""


@click.group("backup", cls=ClusterCommands)
def main() -> None:
    """Make a consistent copy of a running broker of Odradek.

    `restore`, and `create` without -b, ask the control interface of a broker; `verify` reads a backup's folder.
    """


@main.command()
@click.argument("path")
@connected
def create(cluster: Cluster, out: Output, path: str) -> None:
    """Make a backup, in the folder of the broker's machine that its setting odradek.backup.folder names.

    PATH is its name there. It asks for ALTER on the cluster.
    """
    with cluster.python_admin(max(cluster.timeout, PATIENCE_S)) as admin:
        try:
            answer = admin._manager.run(admin._manager.send, CreateBackupRequest(path=path))
        except IncompatibleBrokerVersion as error:
            raise click.ClickException(
                f"the broker at {cluster.bootstrap} makes no backups for its clients: it is another Kafka, or an older "
                "Odradek"
            ) from error
    require_no_error(answer)
    out.result({"backup": answer.path, "bytes": answer.size}, f"{answer.size} bytes")
