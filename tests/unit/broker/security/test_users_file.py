"""`odradek.users.file`: byte order mark, ends of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.security.sasl.mechanisms import read_users
from broker.security.sources import SecurityError

ODD = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\rj"
"""Every other character at which Python's `str.splitlines` ends a line."""


@pytest.mark.parametrize(
    ("content", "users"),
    [
        ("\ufeffalice:secret\nbob:b\n", {"alice": "secret", "bob": "b"}),
        ("alice:secret\r\nbob:b", {"alice": "secret", "bob": "b"}),
        (f"alice:{ODD}\nbob:b\n", {"alice": ODD, "bob": "b"}),
        ("# of tests\n\n alice :a:b \n", {"alice": "a:b "}),
    ],
)
def test_users_of_a_file(tmp_path: Path, content: str, users: dict[str, str]) -> None:
    file = tmp_path / "users"
    file.write_bytes(content.encode())
    assert read_users(str(file)) == users


@pytest.mark.parametrize("content", [b"alice:a\nbob\n", b"alice:\n", b":x\n", b"\xff:x\n"])
def test_what_is_no_users_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "users"
    file.write_bytes(content)
    with pytest.raises(SecurityError, match=r"odradek\.users\.file = "):
        read_users(str(file))
