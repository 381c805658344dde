"""What is wrong with the keys, certificates or users of a listener."""

from __future__ import annotations


class SecurityError(ValueError):
    """A store, a file or a setting cannot be used; the text names it and says what to do, and has nothing secret."""
