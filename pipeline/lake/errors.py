"""What a user of `lake` can fix, and retrying cannot."""

from __future__ import annotations

import click


class LakeError(click.ClickException):
    """The message says what is wrong and what to do about it."""
