"""Behind proxies: whose address counts for ACLs and logins, and when the cookie is Secure."""

from __future__ import annotations

import ipaddress

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from broker.console.login import Origin, origin_of
from broker.testkit.control.endpoint import ControlError
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.test_login import ACLS, SASL, log_in
from tests.unit.broker.rig import Rig

TRUSTED = [ipaddress.ip_network(each) for each in ("127.0.0.1", "10.0.0.0/8", "fd00::/8")]
FOR, PROTO = "X-Forwarded-For", "X-Forwarded-Proto"


def origin(peer: str, *headers: tuple[str, str]) -> Origin:
    request = make_mocked_request("GET", "/", headers=[("Host", "console"), *headers])
    return origin_of(request.clone(remote=peer), TRUSTED)


@pytest.mark.parametrize(
    ("peer", "given", "address"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("::ffff:192.0.2.1", None, "192.0.2.1"),
        ("2001:db8::1", None, "2001:db8:0:0:0:0:0:1"),
        ("fe80::1%eth0", None, "fe80:0:0:0:0:0:0:1"),
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7:51234", "192.0.2.7"),
        ("10.0.0.1", "[2001:db8::7]:51234", "2001:db8:0:0:0:0:0:7"),
        ("10.0.0.1", "2001:db8::7", "2001:db8:0:0:0:0:0:7"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("fd00::1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.66, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.66, 192.0.2.7, 10.0.0.2, 10.0.0.3", "192.0.2.7"),
        ("10.0.0.1", "nonsense, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "10.9.9.9", "10.9.9.9"),
        ("10.0.0.1", "10.9.9.9, 10.0.0.2", "10.9.9.9"),
        ("10.0.0.1", " , 192.0.2.7 ,", "192.0.2.7"),
    ],
)
def test_the_address_is_that_of_who_came_to_the_first_trusted_proxy(peer: str, given: str | None, address: str) -> None:
    assert origin(peer, *([] if given is None else [(FOR, given)])).address == address


def test_a_header_that_is_there_twice_is_one_list() -> None:
    assert origin("10.0.0.1", (FOR, "192.0.2.66"), (FOR, "192.0.2.7, 10.0.0.2")).address == "192.0.2.7"


@pytest.mark.parametrize("header", ["Forwarded", FOR, PROTO, "X-Forwarded-Host", "X-Real-IP", "Via", "x-forwarded-for"])
def test_what_comes_through_a_proxy_that_is_not_trusted_is_refused(header: str) -> None:
    with pytest.raises(ControlError, match=r"name 192\.0\.2\.1 in odradek\.http\.trusted\.proxies"):
        origin("192.0.2.1", (header, "10.0.0.1"))


@pytest.mark.parametrize("given", ["unknown", "192.0.2.7, _hidden", "", ",", "192.0.2.7, 1.2.3", "[::1]x:1:", "[x]"])
def test_a_trusted_proxy_that_does_not_say_for_whom_it_asks_is_refused(given: str) -> None:
    with pytest.raises(ControlError, match=FOR):
        origin("10.0.0.1", (FOR, given))


def test_a_connection_without_an_address_is_refused() -> None:
    with pytest.raises(ControlError, match="address of this connection"):
        origin("")


@pytest.mark.parametrize(
    ("peer", "protocol", "secure"),
    [
        ("10.0.0.1", "https", True),
        ("10.0.0.1", "https, http", True),
        ("10.0.0.1", "http", False),
        ("10.0.0.1", "", False),
    ],
)
def test_only_a_trusted_proxy_says_that_the_browser_came_by_https(peer: str, protocol: str, secure: bool) -> None:
    assert origin(peer, (FOR, "192.0.2.7"), (PROTO, protocol)).is_secure is secure


def behind_proxy(address: str) -> dict[str, str]:
    return {FOR: address, PROTO: "https"}


async def cookie_of(browser: Browser, headers: dict[str, str]) -> str:
    form = {"user": "anna", "password": "a=,secret"}
    async with browser.session.post("/login", data=form, headers=headers, allow_redirects=False) as answer:
        assert answer.status == 303
        return answer.headers["Set-Cookie"]


async def test_acls_have_the_address_that_a_trusted_proxy_tells() -> None:
    acls = {"odradek.create.acls": "User:anna DESCRIBE TOPIC orders from 192.0.2.7"}
    async with Rig(config=SASL | ACLS | acls | {"odradek.http.trusted.proxies": "127.0.0.1"}) as rig:
        await rig.create("orders")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            cookie = await cookie_of(browser, behind_proxy("192.0.2.7"))
            assert "Secure" in cookie.split("; ")
            assert "Secure" not in (await cookie_of(browser, {FOR: "192.0.2.7"})).split("; ")
            sent = {"Cookie": cookie.partition(";")[0]}
            page = "/topic?name=orders"
            await browser.get(page, headers=sent | behind_proxy("192.0.2.7"))
            for stranger in ("192.0.2.8", "192.0.2.7, 192.0.2.8"):
                await browser.get(page, 403, headers=sent | behind_proxy(stranger))
            assert "does not say for whom it asks" in (await browser.get(page, 403, headers=sent)).text


async def test_nobody_logs_in_through_a_proxy_that_is_not_trusted() -> None:
    async with Rig(config=SASL) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            refused = await browser.get("/login", 403, headers={FOR: "192.0.2.7"})
            assert "name 127.0.0.1 in odradek.http.trusted.proxies" in refused.text
            form = aiohttp.FormData({"user": "anna", "password": "a=,secret"})
            async with browser.session.post("/login", data=form, headers={FOR: "192.0.2.7"}) as answer:
                assert answer.status == 403
                assert "Set-Cookie" not in answer.headers
            await log_in(browser, "anna", "a=,secret")
            assert not browser.session.cookie_jar.filter_cookies(URL(browser.session._base_url or ""))["odradek_1"][
                "secure"
            ]


async def test_without_logins_proxies_need_no_trust() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        await browser.get("/", headers={FOR: "192.0.2.7"})
