"""How Java treats strings, as far as it shows in Kafka's answers."""

from __future__ import annotations

import codecs
from socket import AF_INET6, inet_pton

REPLACING = "as-java-replaces"
"""The error handler by which `str(data, "utf-8", REPLACING)` is `decode_utf8`, where a call more would count."""

_INT_MASK = 0xFFFFFFFF
_INT_SIGN = 0x80000000
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def decode_utf8(data: bytes | bytearray | memoryview) -> str:
    """Java's `new String(data, UTF_8)`: invalid bytes become replacement characters, and nothing raises."""
    return str(data, "utf-8", REPLACING)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """One replacement character where Python has one, but also only one for a whole encoded surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    rest = error.object[error.start : error.start + 3]
    if rest[0] == 0xED and len(rest) > 1 and 0xA0 <= rest[1] <= 0xBF:
        is_whole = len(rest) > 2 and rest[2] & 0xC0 == 0x80
        return "\ufffd", error.start + (3 if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error(REPLACING, _replace)

for _encoding in ("utf-16-be", "utf-16-le"):
    codecs.lookup(_encoding)  # Python opens their modules at first use, when no descriptor may be left


def utf16_length(text: str) -> int:
    """Java's String.length(): characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) >> 1


def utf16(text: str) -> bytes:
    """The UTF-16 units, little-endian."""
    return text.encode("utf-16-le")


def java_string_hash(text: str) -> int:
    """Java's String.hashCode(), a signed 32-bit number over the UTF-16 units."""
    hashed = 0
    if text.isascii():
        for unit in text.encode():
            hashed = hashed * 31 + unit & _INT_MASK
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            hashed = hashed * 31 + (high << 8 | low) & _INT_MASK
    return hashed - (1 << 32) if hashed & _INT_SIGN else hashed


def java_trim(text: str) -> str:
    """Java's String.trim(), which removes spaces and control characters, and no other white space."""
    return text.strip(_TRIMMED)


def java_address(host: str, scope_id: int = 0) -> str:
    """Java's `InetAddress.getHostAddress()` of an IP address: in IPv6 all eight parts, and the scope if it has one."""
    if ":" not in host:
        return host
    packed = inet_pton(AF_INET6, host)
    parts = ":".join(f"{int.from_bytes(packed[at : at + 2], 'big'):x}" for at in range(0, 16, 2))
    return f"{parts}%{scope_id}" if scope_id else parts
