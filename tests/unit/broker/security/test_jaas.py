"""JAAS lines as Kafka's documentation writes them, and what is no such line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.listener_settings import PLAIN_MODULE, JaasError, parse_jaas


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN_MODULE} required username="admin" password="a b" user_admin="a b";', {"username": "admin"}),
        (f"{PLAIN_MODULE} required\n  username='admin'\n  user_admin=secret ;\n", {"user_admin": "secret"}),
        (f'{PLAIN_MODULE} REQUIRED user_a="say \\"x\\"; y=z";', {"user_a": 'say "x"; y=z'}),
        (f"{PLAIN_MODULE} required;", {}),
        (f'{PLAIN_MODULE} optional user_="";', {"user_": ""}),
    ],
)
def test_a_line(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == PLAIN_MODULE
    assert module.options.items() >= options.items()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a line such as"),
        (f"{PLAIN_MODULE} required", "expected a line such as"),
        (f"{PLAIN_MODULE} needed;", "one of required"),
        (f"{PLAIN_MODULE} required user_a=b; {PLAIN_MODULE} required;", "expected one login module"),
        (f"{PLAIN_MODULE} required user_a;", "name=value"),
        (f"{PLAIN_MODULE} required user_a==;", "name=value"),
        (f'{PLAIN_MODULE} required user_a="geheim;', "quotation mark"),
    ],
)
def test_what_is_no_line(text: str, complaint: str) -> None:
    with pytest.raises(JaasError, match=complaint) as caught:
        parse_jaas(text)
    assert "geheim" not in str(caught.value)


def test_a_module_shows_no_passwords() -> None:
    assert "geheim" not in repr(parse_jaas(f'{PLAIN_MODULE} required user_a="geheim";'))


@given(st.text(max_size=60))
def test_any_text_is_a_line_or_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except JaasError:
        return


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=10), max_size=4))
def test_options_come_back_as_they_were_quoted(options: dict[str, str]) -> None:
    quoted = " ".join(
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in options.items()
    )
    assert parse_jaas(f"{PLAIN_MODULE} required {quoted};").options == options
