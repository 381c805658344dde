"""Keys and users are read again when files or settings change; bad ones are refused, and the old ones stay."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from structlog.testing import capture_logs
from trustme import CA

from broker.config.listener_settings import implied_settings
from broker.security.node_security import CHECK_MS, RENEWAL_MS, SOON_MS
from metadata.configs import ResourceType
from tests.certificates import Pair, pair, pair_of, trusting
from tests.conformance.authentication.settings import ODD_NAME, PLAIN_NAME
from tests.doubles.clock import ManualClock, settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.security.tls_client import TlsClient

CA_ = CA()
STORE = "listener.name.tls.ssl.keystore.location"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    replace(tmp_path / "broker.pem", pair_of(CA_, PLAIN_NAME).pem)
    replace(tmp_path / "users", b"# who\n\nalice:geheim\n")
    return tmp_path


@pytest.fixture
async def rig(folder: Path) -> AsyncIterator[Rig]:
    config = {
        STORE: str(folder / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "sasl.enabled.mechanisms": "PLAIN",
        "odradek.users.file": str(folder / "users"),
    }
    async with Rig(config=config) as one:
        await one.secure("TLS", "SSL")
        await one.secure("SASL", "SASL_PLAINTEXT")
        yield one


def replace(path: Path, content: bytes) -> None:
    """As tools that renew certificates do: never a half-written file under the name."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


async def serial(rig: Rig) -> int:
    """The number of the certificate that a new client is shown."""
    context = trusting(CA_)
    context.check_hostname = False
    client = TlsClient(rig, context)
    assert await client.shake()
    shown = client.tls.getpeercert(binary_form=True)
    assert shown is not None
    client.transport.reset()
    await settle()
    return x509.load_der_x509_certificate(shown).serial_number


def number(of: Pair) -> int:
    return x509.load_pem_x509_certificates(of.chain)[0].serial_number


async def log_in(rig: Rig, token: bytes) -> str:
    client = rig.connect(listener="SASL")
    await client.ask("sasl_handshake", 1, mechanism="PLAIN")
    client.send("sasl_authenticate", 1, auth_bytes=token)
    await rig.clock.run(100)
    (reply,) = client.replies()
    from tests.unit.broker.wire import answer

    name: str = answer(reply, "sasl_authenticate", 1).error_code.name
    client.transport.reset()
    await settle()
    return name


async def look(rig: Rig) -> list[Mapping[str, Any]]:
    with capture_logs() as logs:
        await rig.clock.run(CHECK_MS)
    return [line for line in logs if "read again" in str(line["event"]) or "refused" in str(line["event"])]


async def test_a_new_certificate_in_the_file_is_shown_to_new_clients(rig: Rig, folder: Path) -> None:
    new = pair_of(CA_, PLAIN_NAME)
    replace(folder / "broker.pem", new.pem)
    (line,) = await look(rig)
    assert (line["event"], line["listener"]) == ("keys and users were read again", "TLS")
    assert await serial(rig) == number(new)
    assert await look(rig) == []


async def test_a_new_certificate_in_a_folder_of_kubernetes_is_shown_to_new_clients(tmp_path: Path) -> None:
    """The folder's entries are links into another, which is replaced as a whole."""
    for number_of_mount, certificate in enumerate(
        (first := pair_of(CA_, PLAIN_NAME), second := pair_of(CA_, PLAIN_NAME))
    ):
        (tmp_path / f"..{number_of_mount}").mkdir()
        (tmp_path / f"..{number_of_mount}" / "tls.key").write_bytes(certificate.key)
        (tmp_path / f"..{number_of_mount}" / "tls.crt").write_bytes(certificate.chain)
    (tmp_path / "..data").symlink_to("..0")
    for name in ("tls.key", "tls.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    async with Rig(config={STORE: str(tmp_path), "listener.name.tls.ssl.keystore.type": "PEM"}) as rig:
        await rig.secure("TLS", "SSL")
        assert await serial(rig) == number(first)
        (tmp_path / "..new").symlink_to("..1")
        os.replace(tmp_path / "..new", tmp_path / "..data")
        assert [line["event"] for line in await look(rig)] == ["keys and users were read again"]
        assert await serial(rig) == number(second)


async def test_users_of_the_settings_log_in(tmp_path: Path) -> None:
    config = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.sasl.odradek.users": "# one\nalice:ge:heim\n"}
    async with Rig(config=config) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        assert await log_in(rig, b"\0alice\0ge:heim") == "none"
        assert await log_in(rig, b"\0alice\0geheim") == "sasl_authentication_failed"


def damaged(what: bytes, instead: bytes) -> bytes:
    """A certificate with these bytes of its DER form replaced, and its key: much is not read until it is used."""
    pair = pair_of(CA_, PLAIN_NAME)
    der = x509.load_pem_x509_certificates(pair.chain)[0].public_bytes(Encoding.DER)
    assert what in der
    text = b64encode(der.replace(what, instead, 1))
    return pair.key + b"-----BEGIN CERTIFICATE-----\n" + text + b"\n-----END CERTIFICATE-----\n"


DAMAGED = [
    damaged(bytes.fromhex("a003020102"), bytes.fromhex("a003020118")),  # version 25
    damaged(bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a862fce3d030107")),  # the curve
    damaged(bytes.fromhex("03420004"), bytes.fromhex("03420009")),  # the point on it
]


@pytest.mark.parametrize("bad", [b"", b"nonsense", pair_of(CA_, PLAIN_NAME).key, pair_of(CA_, ODD_NAME).pem, *DAMAGED])
async def test_a_bad_file_is_refused_once_and_the_old_certificate_stays(rig: Rig, folder: Path, bad: bytes) -> None:
    before = await serial(rig)
    replace(folder / "broker.pem", bad)
    (line,) = await look(rig)
    assert (line["event"], line["log_level"]) == ("new keys or users are refused", "error")
    assert await look(rig) == []
    assert await serial(rig) == before
    good = pair_of(CA_, PLAIN_NAME)
    replace(folder / "broker.pem", good.pem)
    assert len(await look(rig)) == 1
    assert await serial(rig) == number(good)


async def test_a_missing_file_is_refused_and_may_come_back(rig: Rig, folder: Path) -> None:
    before = await serial(rig)
    content = (folder / "broker.pem").read_bytes()
    (folder / "broker.pem").unlink()
    assert [line["event"] for line in await look(rig)] == ["new keys or users are refused"]
    assert await serial(rig) == before
    replace(folder / "broker.pem", content)
    assert [line["event"] for line in await look(rig)] == ["keys and users were read again"]


async def test_users_come_and_go_with_their_file(rig: Rig, folder: Path) -> None:
    assert await log_in(rig, b"\0alice\0geheim") == "none"
    replace(folder / "users", b"bob:a:b\n")
    await look(rig)
    assert await log_in(rig, b"\0alice\0geheim") == "sasl_authentication_failed"
    assert await log_in(rig, b"\0bob\0a:b") == "none"
    replace(folder / "users", b"no colon, but a geheim")
    (line,) = await look(rig)
    assert "expected name:password in line 1" in line["error"]
    assert "geheim" not in line["error"]
    assert await log_in(rig, b"\0bob\0a:b") == "none"


async def alter(rig: Rig, name: str, value: str) -> tuple[str, str | None]:
    client = rig.connect()
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configs=(change,))
    done = await client.ask("incremental_alter_configs", 1, resources=(resource,), validate_only=False)
    (response,) = done.responses
    return response.error_code.name, response.error_message


async def test_a_setting_altered_at_run_time(rig: Rig, folder: Path) -> None:
    new = pair_of(CA_, PLAIN_NAME)
    replace(folder / "other.pem", new.pem)
    assert await alter(rig, STORE, str(folder / "other.pem")) == ("none", None)
    assert await serial(rig) == number(new)


async def test_a_bad_setting_is_refused_at_run_time(rig: Rig, folder: Path) -> None:
    before = await serial(rig)
    replace(folder / "other.pem", pair(CA_).pem)
    error, message = await alter(rig, STORE, str(folder / "other.pem"))
    assert error == "invalid_request"
    assert "expected a certificate of 'CN=alice,O=Odradek'" in (message or "")
    error, message = await alter(rig, STORE, "/no/such")
    assert (error, "the file cannot be read" in (message or "")) == ("invalid_request", True)
    assert await serial(rig) == before


async def test_names_of_hosts_must_stay_unless_they_may_change(folder: Path) -> None:
    replace(folder / "broker.pem", pair(CA_, "localhost", "other").pem)
    fewer = pair(CA_, "localhost").pem
    base = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.allow.dn.changes": "true",
    }
    for allowed, event in (("false", "new keys or users are refused"), ("true", "keys and users were read again")):
        replace(folder / "broker.pem", pair(CA_, "localhost", "other").pem)
        async with Rig(config=base | {"ssl.allow.san.changes": allowed}) as rig:
            await rig.secure("TLS", "SSL")
            replace(folder / "broker.pem", fewer)
            assert [line["event"] for line in await look(rig)] == [event]


def with_own_authority(folder: Path) -> dict[str, str]:
    config = {"odradek.tls.folder": str(folder)}
    return config | {name: value for name, (value, _) in implied_settings(config).items()}


async def test_certificates_of_our_own_are_renewed_before_they_expire(tmp_path: Path) -> None:
    year_ms = 365 * RENEWAL_MS
    async with Rig(config=with_own_authority(tmp_path / "tls")) as rig:
        await rig.secure("TLS", "SSL")
        first = x509.load_pem_x509_certificate((tmp_path / "tls" / "broker.pem").read_bytes())
        rig.clock.stall(RENEWAL_MS)
        await rig.clock.run(CHECK_MS)
        assert x509.load_pem_x509_certificate((tmp_path / "tls" / "broker.pem").read_bytes()) == first
        rig.clock.stall(year_ms - 20 * RENEWAL_MS)
        with capture_logs() as logs:
            await rig.clock.run(2 * CHECK_MS)
        events = [line["event"] for line in logs]
        assert events.index("certificates were made") < events.index("keys and users were read again")
        shown = rig.node.local.security.listeners["TLS"].prepared.certificate
        assert shown.not_valid_after_utc.timestamp() * 1000 > rig.clock.wall_ms() + year_ms - RENEWAL_MS


async def test_a_folder_that_can_no_longer_be_used_is_logged_and_the_old_certificate_stays(tmp_path: Path) -> None:
    async with Rig(config=with_own_authority(tmp_path / "tls")) as rig:
        await rig.secure("TLS", "SSL")
        before = rig.node.local.security.listeners["TLS"].prepared
        (tmp_path / "tls" / "ca.key").write_bytes(b"nonsense")
        rig.clock.stall(RENEWAL_MS)
        with capture_logs() as logs:
            await rig.clock.run(2 * CHECK_MS)
        (line,) = (line for line in logs if line["event"] == "certificates cannot be renewed")
        assert "no certificates can be made in it" in line["error"]
        assert rig.node.local.security.listeners["TLS"].prepared is before


async def test_a_certificate_that_expires_is_logged_in_time_and_every_day(tmp_path: Path) -> None:
    given = pair_of(CA_, PLAIN_NAME)
    replace(tmp_path / "broker.pem", given.pem)
    end_ms = int(x509.load_pem_x509_certificates(given.chain)[0].not_valid_after_utc.timestamp() * 1000)
    config = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "broker.pem")}
    clock = ManualClock(end_ms - SOON_MS - RENEWAL_MS * 3 // 2)
    found = []
    async with Rig(config=config, clock=clock) as rig:
        with capture_logs() as logs:
            await rig.secure("TLS", "SSL")
        found.append(logs)
        for pause_ms in (RENEWAL_MS, RENEWAL_MS, SOON_MS):
            rig.clock.stall(pause_ms)
            with capture_logs() as logs:
                await rig.clock.run(CHECK_MS)
            found.append(logs)
    said = [
        [(line["event"], line["log_level"]) for line in logs if "our certificate" in line["event"]] for logs in found
    ]
    soon, over = "our certificate will soon expire", "our certificate has expired: clients refuse it"
    assert said == [[], [], [(soon, "warning")], [(over, "error")]]
