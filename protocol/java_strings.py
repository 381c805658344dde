"""What Java makes of a string: its length and its hash code, which show in Kafka's answers."""

from __future__ import annotations

_INT_MASK = 0xFFFFFFFF
_INT_SIGN = 0x80000000
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))


def utf16_length(text: str) -> int:
    """Java's String.length(): characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) >> 1


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
    """Java's String.trim(), which takes away control characters as well as spaces, and no other white space."""
    return text.strip(_TRIMMED)
