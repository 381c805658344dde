"""`odradek.users.file` and `odradek.users`: the users of PLAIN and SCRAM, a line `name:password` each."""

from __future__ import annotations

import re
from pathlib import Path

from broker.security.errors import SecurityError

KEY = "odradek.users.file"


def read_users(location: str) -> dict[str, str]:
    """Passwords by name, out of a file. Blocking, any thread. Raises SecurityError."""
    try:
        text = Path(location).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SecurityError(f"{KEY} = {location!r}: the file cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SecurityError(f"{KEY} = {location!r}: expected a text in UTF-8") from error
    return parse_users(f"{KEY} = {location!r}", text)


def parse_users(where: str, text: str) -> dict[str, str]:
    """Passwords by name. Blank lines and those that begin with # do not count. Raises SecurityError.

    Only `\\n` and `\\r\\n` end a line: what else Unicode has for that may be in a password.
    """
    users: dict[str, str] = {}
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name.strip() or not password:
            raise SecurityError(f"{where}: expected name:password in line {number}")
        users[name.strip()] = password
    return users
