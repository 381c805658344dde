"""What templates show can be seen; what forms send back is as it was."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from markupsafe import Markup

from broker.console.formats import exact, visible
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_hostile_names import fill
from tests.unit.broker.members import CONFIG
from tests.unit.broker.rig import Rig


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202egnp.exe", r"a\u202egnp.exe"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("order\u200bs", r"order\u200bs"),
        ("order\u200cs", r"order\u200cs"),
        ("\u200d", r"\u200d"),
        ("\ufeffx\xad", r"\ufeffx\u00ad"),
        ("\x1b[31m\x07\x9b", r"\u001b[31m\u0007\u009b"),
        ("\U000e0041", r"\U000e0041"),
        ("\u3164", r"\u3164"),
        ("two\n\tlines\r", "two\n\tlines\r"),
        ("م\u200cی", "م\u200cی"),
        ("\U0001f469\u200d\U0001f680", "\U0001f469\u200d\U0001f680"),
        ("naïve 注文 \\u202e", "naïve 注文 \\u202e"),
        (7, 7),
        (Markup("<b>\u200b"), Markup("<b>\u200b")),
    ],
)
def test_bidi_and_zero_width_characters_are_written_as_escapes(text: object, shown: object) -> None:
    assert visible(text) == shown


def test_a_field_of_a_form_has_the_characters_themselves() -> None:
    assert exact('\u202e"<') == Markup("\u202e&#34;&lt;")


@pytest.mark.parametrize("name", ["paid\u202eoN", "orders\u200b", "\x1b]0;title\x07"])
async def test_no_page_shows_a_name_that_looks_like_another_one(name: str) -> None:
    async with Rig(config=CONFIG | {"odradek.console.write": "true"}) as rig:
        await fill(rig, name)
        async with browsing(rig) as browser:
            at = quote(name, safe="")
            unseen = next(one for one in name if not (one.isascii() and one.isprintable()))
            for page in ("groups", "transactions", "clients", "journal", f"group?id={at}", f"transaction?id={at}"):
                shown = await browser.get(f"/{page}")
                assert name not in shown.text
                assert f"\\u{ord(unseen):04x}" in shown.text
            form = await browser.get(f"/transaction?id={at}")
            assert name in [one.get("value") for one in form.all("input")]
