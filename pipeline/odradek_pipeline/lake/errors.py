"""Errors of `lake` that a user can fix, and that retrying cannot."""

from __future__ import annotations

import click


class LakeError(click.ClickException):
    """The message says what is wrong and what to do about it."""
