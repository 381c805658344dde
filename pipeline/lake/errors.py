"""What a user of `lake` can put right; retrying would not."""

import click


class LakeError(click.ClickException):
    """The message says what is wrong and what to do about it."""
