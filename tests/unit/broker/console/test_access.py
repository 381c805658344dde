"""ACLs, users, quotas and delegation tokens on the console's pages."""

from __future__ import annotations

import base64

from broker.passwords import Passwords
from metadata.acls import AclOperation, ResourceType
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.test_login import SASL, log_in
from tests.unit.broker.console.test_topic_forms import WRITE, refused
from tests.unit.broker.rig import Rig

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:otto",
}
SECURED = {**WRITE, **SASL, **ACLS, "delegation.token.secret.key": "a key of this test"}


async def secured(rig: Rig) -> None:
    await rig.secure("SASL", "SASL_PLAINTEXT")


async def test_an_acl_is_added_found_and_deleted() -> None:
    async with Rig(config=SECURED) as rig, browsing(rig) as browser:
        await secured(rig)
        await log_in(browser, "otto", "o")
        authorizer = rig.node.base.authorizer
        assert authorizer is not None
        acl = {
            "principal": "User:anna",
            "operation": "READ",
            "resource": "TOPIC",
            "name": "orders-",
            "pattern": "PREFIXED",
        }
        asked = ("User:anna", "10.0.0.7", AclOperation.READ, ResourceType.TOPIC, "orders-1")
        assert not authorizer.allows(*asked)
        await browser.post("/add-acl", **acl)
        assert authorizer.allows(*asked)
        shown = "User:anna * ALLOW READ TOPIC orders-… prefix"
        assert shown in (await browser.get("/acls")).text
        assert shown in (await browser.get("/acls?q=ORD&resource=TOPIC&principal=User:anna")).text
        for other in ("q=x", "resource=GROUP", "principal=User:otto"):
            assert "There is no such ACL" in (await browser.get(f"/acls?{other}")).text
        await browser.post("/delete-acl", **acl, host="*", permission="ALLOW")
        assert not authorizer.allows(*asked)
        assert "somebody may have deleted it" in await browser.post("/delete-acl", 404, **acl)


async def test_an_acl_that_makes_no_sense_is_refused_and_kept_in_the_form() -> None:
    async with Rig(config=SECURED) as rig, browsing(rig) as browser:
        await secured(rig)
        await log_in(browser, "otto", "o")
        page = await refused(browser, "add-acl", 400, principal="anna", name="orders", operation="WRITE")
        assert "expected a type and a name, as User:app" in page.text
        assert page.selected["operation"] == "WRITE"
        assert "name is missing" in await browser.post("/add-acl", 400, principal="User:anna")


async def test_without_an_authorizer_the_page_says_so() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        assert "SECURITY_DISABLED: No authorizer is configured." in (await browser.get("/acls", 409)).text


async def test_a_user_gets_a_password_another_one_and_none() -> None:
    async with Rig(config={**WRITE, **SASL, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}) as rig:
        await secured(rig)
        async with browsing(rig) as browser:
            await log_in(browser, "otto", "o")
            new = {"user": "ben", "mechanism": "SCRAM-SHA-512"}
            for password in ("first", "second"):
                await browser.post("/set-password", **new, password=password, again=password)
                assert await Passwords(rig.node).authenticated("ben", password) is not None
            assert await Passwords(rig.node).authenticated("ben", "first") is None
            assert "ben SCRAM-SHA-512 4,096" in (await browser.get("/users")).text
            await browser.post("/delete-password", **new)
            assert await Passwords(rig.node).authenticated("ben", "second") is None
            assert "RESOURCE_NOT_FOUND" in await browser.post("/delete-password", 409, **new)


async def test_a_password_is_typed_twice_and_never_comes_back_or_is_noted() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        page = await refused(browser, "set-password", 400, user="ben", password="told", again="to nobody")
        assert "the passwords are not the same" in page.text
        values = {one.get("name"): one.get("value") for one in page.all("input")}
        assert values["user"] == "ben"
        assert values["password"] is None
        assert "expected 4096 to 16384" in await browser.post(
            "/set-password", 400, user="ben", password="told", again="told", iterations="1"
        )
        assert "told" not in (await browser.get("/audit")).text


async def test_a_quota_is_set_for_a_user_with_a_client_id_and_removed() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        quota = {"user": "ben", "client": "<default>", "key": "producer_byte_rate"}
        await browser.post("/set-quota", **quota, value="1048576", do="set")
        page = await browser.get("/quotas")
        assert "ben <default> – producer_byte_rate" in page.text
        assert "1048576 1.0 MB/s" in page.text
        assert "There is no such quota" in (await browser.get("/quotas?q=anna")).text
        await browser.post("/set-quota", **quota, do="remove")
        assert "There is no such quota" in (await browser.get("/quotas")).text


async def test_a_quota_that_makes_no_sense_is_refused() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        for form, status, said in (
            ({"key": "producer_byte_rate", "value": "1"}, 400, "name a user, a client id or an address"),
            ({"user": "ben", "key": "producer_byte_rate", "value": "many"}, 400, "expected a number"),
            ({"user": "ben", "key": "producer_byte_rate", "value": "nan"}, 400, "expected a number"),
            ({"ip": "10.0.0.1", "key": "producer_byte_rate", "value": "1"}, 409, "INVALID_REQUEST"),
        ):
            assert said in (await refused(browser, "set-quota", status, **form)).text


async def token_of(browser: Browser) -> tuple[str, bytes]:
    """The id and the secret of the first token on the page."""
    page = await browser.get("/tokens")
    words = page.text.partition("Change ")[2].split()
    return words[0], base64.b64decode(words[2])


async def test_an_owner_makes_a_token_renews_and_ends_it() -> None:
    async with Rig(config=SECURED) as rig, browsing(rig) as browser:
        await secured(rig)
        await log_in(browser, "anna", "a=,secret")
        await browser.post("/create-token", renewers="User:ben, User:carl", hours="48")
        token_id, secret = await token_of(browser)
        token = rig.node.cluster.cache.image.tokens[token_id]
        assert (token.owner, token.renewers) == ("User:anna", ("User:ben", "User:carl"))
        assert token.max_timestamp - token.issue_timestamp == 48 * 3_600_000
        assert len(secret) == 64
        await browser.post("/renew-token", id=token_id, hours="1")
        renewed = rig.node.cluster.cache.image.tokens[token_id]
        assert renewed.expiration_timestamp - rig.clock.wall_ms() <= 3_600_000
        await browser.post("/expire-token", id=token_id)
        assert token_id not in rig.node.cluster.cache.image.tokens


async def test_a_token_is_its_owners_alone_even_before_a_super_user() -> None:
    async with Rig(config=SECURED) as rig, browsing(rig) as browser:
        await secured(rig)
        await log_in(browser, "anna", "a=,secret")
        await browser.post("/create-token")
        token_id, _ = await token_of(browser)
        await log_in(browser, "otto", "o")
        page = await browser.get("/tokens")
        assert token_id in page.text, "a super user may describe all tokens"
        assert "its owner's and renewers'" in page.text
        for action in ("renew-token", "expire-token"):
            text = await browser.post(f"/{action}", 409, id=token_id)
            assert "DELEGATION_TOKEN_OWNER_MISMATCH" in text
        assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" not in await browser.post("/create-token", owner="User:anna")
        await log_in(browser, "anna", "a=,secret")
        assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in await browser.post("/create-token", 403, owner="User:otto")


async def test_where_there_are_no_tokens_the_page_says_why() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        page = await browser.get("/tokens")
        assert "DELEGATION_TOKEN" in page.text
        assert "delegation.token.secret.key" in page.text
