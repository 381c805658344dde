"""`odradek-pipeline package`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="files for spark-submit: our code as one zip, and a script that starts it")
@click.option(
    "--into", type=click.Path(file_okay=False, path_type=Path), default=Path("dist"), show_default=True, help="folder"
)
def command(into: Path) -> None:
    """Write odradek_pipeline.zip for --py-files, and odradek-pipeline.py, the application to submit.

    Other packages that they need are not included: docs/pipeline.md says which job needs which, and how a cluster gets
    them.
    """
    from odradek_pipeline.package import write

    for path in write(into):
        click.echo(path)
