"""What Java says of strings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from protocol.java_strings import decode_utf8, java_address, java_string_hash, utf16_length

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("é", 233), ("😀", 55357 * 31 + 56832)],
)
def test_string_hash_code(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("日本", 2), ("a😀", 3)])
def test_length_counts_utf16_units(text: str, length: int) -> None:
    assert utf16_length(text) == length


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("c3a9", "é"),
        ("c080", "??"),
        ("e08080", "???"),
        ("e18041", "?A"),
        ("e180", "?"),
        ("eda080", "?"),
        ("eda041", "?A"),
        ("eda0", "?"),
        ("edbfbf", "?"),
        ("f0808080", "????"),
        ("f09f9880", "😀"),
        ("f09f98", "?"),
        ("f4908080", "????"),
        ("f5808080", "????"),
        ("f1808041", "?A"),
        ("80ff", "??"),
        ("ed9fbf", "퟿"),
    ],
)
def test_what_is_not_utf8_is_replaced_as_by_java_17(data: str, text: str) -> None:
    assert decode_utf8(bytes.fromhex(data)) == text.replace("?", "\ufffd")


@pytest.mark.parametrize(
    ("host", "scope_id", "shown"),
    [
        ("127.0.0.1", 0, "127.0.0.1"),
        ("::1", 0, "0:0:0:0:0:0:0:1"),
        ("fd00::2", 0, "fd00:0:0:0:0:0:0:2"),
        ("fe80::fc:ff:fe00:1", 4, "fe80:0:0:0:fc:ff:fe00:1%4"),
    ],
)
def test_addresses_as_kafka_shows_them(host: str, scope_id: int, shown: str) -> None:
    assert java_address(host, scope_id) == shown


def test_no_descriptor_is_needed_later() -> None:
    """Python opens the module of an encoding at its first use: that must not be when too many files are open."""
    code = (
        "import resource; from protocol.java_strings import utf16, utf16_length;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3));"
        "assert utf16('é') == b'\\xe9\\x00'; assert utf16_length('é') == 1"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
