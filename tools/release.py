"""Makes a release up to what only a person may do: `make release VERSION=0.2.0`.

It writes the version into the projects' files and the chart, gives CHANGELOG.md's unreleased section the version and
today's date, commits, builds the wheels into `dist`, and says what is left: to test, to tag and to upload.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
PROJECTS = ("pyproject.toml", "pipeline/pyproject.toml")
CHART = "deploy/helm/odradek/Chart.yaml"
UNRELEASED = re.compile(r"^## (\S+) \(unreleased\)$", re.MULTILINE)


class ReleaseError(Exception):
    """What has to be put right first."""


def with_version(project: str, version: str) -> str:
    """The text of a pyproject.toml with this version. Raises ReleaseError if it has none."""
    text, count = re.subn(r'(?m)^version = "[^"]+"$', f'version = "{version}"', project, count=1)
    if not count:
        raise ReleaseError("pyproject.toml has no version")
    return text


def chart_with_version(chart: str, version: str) -> str:
    """The text of a Chart.yaml, of the same version as what it starts."""
    return re.sub(r"(?m)^(version|appVersion): .+$", rf"\1: {version}", chart)


def released(changelog: str, version: str, day: str) -> str:
    """The changelog, whose unreleased section is this version's. Raises ReleaseError if there is nothing in it."""
    found = UNRELEASED.search(changelog)
    if found is None:
        raise ReleaseError("CHANGELOG.md has no section `## VERSION (unreleased)`: there is nothing to release")
    section = changelog[found.end() :].partition("\n## ")[0]
    if not section.strip():
        raise ReleaseError("the unreleased section of CHANGELOG.md is empty")
    return changelog[: found.start()] + f"## {version} ({day})" + changelog[found.end() :]


def checked(version: str) -> str:
    """The version, if it is one. Raises ReleaseError."""
    if VERSION.fullmatch(version) is None:
        raise ReleaseError(f"version {version!r}: expected, for instance, 0.2.0 or 0.2.0rc1")
    return version


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def release(version: str) -> list[str]:
    """Do all that is described above; the wheels that were built. Raises ReleaseError."""
    if _run("git", "status", "--porcelain"):
        raise ReleaseError("there are changes that are not committed")
    for name in PROJECTS:
        path = ROOT / name
        path.write_text(with_version(path.read_text(), version))
    chart, changelog = ROOT / CHART, ROOT / "CHANGELOG.md"
    chart.write_text(chart_with_version(chart.read_text(), version))
    changelog.write_text(released(changelog.read_text(), version, f"{datetime.now(UTC):%Y-%m-%d}"))
    _run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    for project in (ROOT, ROOT / "pipeline"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(ROOT / "dist")]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    return sorted(path.name for path in (ROOT / "dist").glob(f"*-{version}-*.whl"))


LEFT = """\
dist/ has {wheels}.
What is left for you:
  .ci/run                                 on a clean clone of this commit
  docker/build-image.sh --save FILE       the image, tried, as an archive (root, Debian)
  git tag --annotate v{version}
  push the commit and the tag, upload the wheels and the image
"""


@click.command()
@click.argument("version")
def main(version: str) -> None:
    """Make the release VERSION, up to what only a person may do."""
    try:
        wheels = release(checked(version))
    except ReleaseError as error:
        raise click.ClickException(str(error)) from error
    click.echo(LEFT.format(wheels=" and ".join(wheels), version=version), nl=False)


if __name__ == "__main__":
    main()
