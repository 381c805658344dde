"""Why a replay stops."""

from __future__ import annotations

import click


class ReplayRefused(click.ClickException):
    """The job as requested cannot be exact, or contradicts itself; this start wrote nothing. Exit status 1."""


class ReplayFailed(click.ClickException):
    """The job ended before all rows were written; when started again, it goes on from there. Exit status 1."""


class InputChangedError(Exception):
    """A task found other rows than an earlier attempt had written; raised on executors; a retry would find the same."""
