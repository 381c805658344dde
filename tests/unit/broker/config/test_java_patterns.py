"""Java's regular expressions in settings: what is taken means what it means there, all else is refused by name."""

from __future__ import annotations

import pytest

from broker.config.java_patterns import JavaPatternError, compile_java


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("CN=(.*?),.*", "CN=a,b", True),
        ("a.b", "a\u2028b", False),
        ("(?s)a.b", "a\nb", True),
        ("(?is)A.B", "a\nb", True),
        (r"\d\w\s", "1a ", True),
        (r"\d", "\u0663", False),
        (r"\w", "\u00e9", False),
        ("(?i)k", "K", True),
        ("(?i)k", "\u212a", False),
        (r"\Qa.b*\E+", "a.b*", True),
        (r"\Qa.b\E", "axb", False),
        ("(?<n>a)\\k<n>", "aa", True),
        ("[]a]", "]", True),
        ("[a&b-]", "-", True),
        ("[~~||]", "|", True),
        (r"a\z", "a", True),
        ("(?>a*)b", "aab", True),
        ("a*+a", "aa", False),
        ("a{2}", "aa", True),
        (r"\x41\u00e9", "A\u00e9", True),
        ("a}", "a}", True),
        (r"\B", "", True),
        (r"a\Bb", "ab", True),
    ],
)
def test_what_is_taken(pattern: str, text: str, *, fits: bool) -> None:
    assert (compile_java(pattern).fullmatch(text) is not None) == fits


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        ("[a-z&&[^s]]", "&& in a class (an intersection)"),
        ("[a-z[0-9]]", "a class inside a class"),
        (r"\p{javaLowerCase}", r"\p{javaLowerCase}"),
        (r"[\P{L}]", r"\P{L}"),
        (r"\h", r"\h"),
        (r"\v", r"\v"),
        (r"\R", r"\R"),
        (r"\X", r"\X"),
        (r"\G", r"\G"),
        (r"a\Z", r"\Z"),
        (r"\0101", r"\0"),
        (r"\x{41}", r"\x{41}"),
        (r"\cA", r"\c"),
        (r"\E", r"\E"),
        (r"(a)\10", r"\10, a reference to a group beyond the ninth"),
        (r"[\b]", r"\b"),
        (r"[\Qa\E]", r"\Qa\E in a class"),
        ("a(?i)b", "(?i)"),
        ("(?x)a", "(?x)"),
        ("(?m)a", "(?m)"),
        ("(?u)a", "(?u)"),
        ("(?s:a)", "(?s:"),
        ("(?P<n>a)", "(?P"),
        ("(?#a)", "(?#"),
        ("(a)(?(1)b)", "(?("),
        ("(?<a_b>c)", "(?<"),
        ("a{,3}", "{ without a count"),
        ("a{x}", "{ without a count"),
        ("[a", "[ without its ]"),
        ("(a", "is no regular expression"),
        ("a" * 3 + "{9999999999}", "is too large a regular expression"),
    ],
)
def test_what_is_refused_is_named(pattern: str, construct: str) -> None:
    with pytest.raises(JavaPatternError) as refused:
        compile_java(pattern)
    assert construct in str(refused.value)
    assert repr(pattern) in str(refused.value)
