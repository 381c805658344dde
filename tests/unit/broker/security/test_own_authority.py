"""`odradek.tls.folder`: certificates that the broker makes itself, and when it makes others."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from broker.config.listener_settings import client_file, implied_settings
from broker.config.sources import load
from broker.security.sources import SecurityError
from broker.security.tls.own_authority import make_certificates

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(path: Path) -> set[str]:
    found = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(one.value) for one in found}


def make(folder: Path, *hosts: str, clients: tuple[str, ...] = (), now_ms: int = NOW_MS) -> None:
    make_certificates(str(folder), hosts, clients, now_ms)


def test_certificates_lead_to_the_authority(tmp_path: Path) -> None:
    make(tmp_path / "new" / "tls", "kafka.example", "10.0.0.1", "", "0.0.0.0", "::", clients=("app",))
    folder = tmp_path / "new" / "tls"
    assert names(folder / "broker.pem") == {"localhost", "127.0.0.1", "::1", "kafka.example", "10.0.0.1"}
    ca = certificate(folder / "ca.pem")
    for name, common in (("broker.pem", "broker"), ("client-app.pem", "app")):
        certificate(folder / name).verify_directly_issued_by(ca)
        assert certificate(folder / name).subject.rfc4514_string() == f"CN={common}"
    modes = {path.name: stat.S_IMODE(os.stat(path).st_mode) for path in folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "broker.pem": 0o600, "client-app.pem": 0o600}


def test_nothing_is_made_twice_until_it_must_be(tmp_path: Path) -> None:
    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    make(tmp_path, "a", clients=("app",))
    first = content()
    make(tmp_path, "a", now_ms=NOW_MS + 300 * DAY_MS)
    assert content() == first
    make(tmp_path, "a", "b")
    assert {name for name, text in content().items() if text != first[name]} == {"broker.pem"}
    assert names(tmp_path / "broker.pem") >= {"a", "b"}
    second = content()
    make(tmp_path, "a", now_ms=NOW_MS + 340 * DAY_MS)
    assert {name for name, text in content().items() if text != second[name]} == {"broker.pem"}


def test_the_authority_is_renewed_in_time_with_its_key(tmp_path: Path) -> None:
    make(tmp_path)
    first, key = certificate(tmp_path / "ca.pem"), (tmp_path / "ca.key").read_bytes()
    assert make_certificates(str(tmp_path), (), (), NOW_MS + 2900 * DAY_MS) == ["broker.pem"]
    assert certificate(tmp_path / "ca.pem") == first
    assert make_certificates(str(tmp_path), (), (), NOW_MS + 2930 * DAY_MS) == ["ca.pem"]
    renewed = certificate(tmp_path / "ca.pem")
    assert (renewed.subject, (tmp_path / "ca.key").read_bytes()) == (first.subject, key)
    assert renewed.not_valid_after_utc - first.not_valid_after_utc == timedelta(days=2930)
    for authority in (first, renewed):  # clients may still have the old one
        certificate(tmp_path / "broker.pem").verify_directly_issued_by(authority)


@pytest.mark.parametrize("days", [3650, 5000])
def test_an_authority_that_has_expired_is_renewed_too(tmp_path: Path, days: int) -> None:
    make(tmp_path)
    make(tmp_path, now_ms=NOW_MS + days * DAY_MS)
    for name in ("ca.pem", "broker.pem"):
        assert certificate(tmp_path / name).not_valid_after_utc.timestamp() * 1000 > NOW_MS + (days + 300) * DAY_MS


def test_certificates_of_another_authority_are_made_anew(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "ca.pem").unlink()
    assert make_certificates(str(tmp_path), (), (), NOW_MS) == ["ca.key", "ca.pem", "broker.pem"]
    certificate(tmp_path / "broker.pem").verify_directly_issued_by(certificate(tmp_path / "ca.pem"))


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SecurityError, match=r"odradek\.tls\.folder = '.*file': no certificates can be made in it"):
        make(tmp_path / "file")
    make(tmp_path)
    (tmp_path / "ca.key").write_bytes(b"nonsense")
    with pytest.raises(SecurityError, match="no certificates can be made in it"):
        make(tmp_path)


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".a", "a b"])
def test_a_clients_name_must_be_a_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits"):
        client_file(name)
    with pytest.raises(SecurityError, match="expected letters, digits"):
        make(tmp_path, clients=(name,))


def test_what_is_set_wins_over_what_follows() -> None:
    assert implied_settings({}) == {}
    folder = implied_settings({"odradek.tls.folder": "/f"})
    assert {name: value for name, (value, _) in folder.items()} == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/f/broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/f/ca.pem",
    }
    own = {"odradek.tls.folder": "/f", "ssl.keystore.location": "/own", "ssl.truststore.certificates": "pem"}
    assert implied_settings(own) == {}
    assert implied_settings({"odradek.users.file": "/u", "sasl.enabled.mechanisms": "PLAIN"}) == {}
    for users in ("odradek.users.file", "odradek.users"):
        assert [*implied_settings({users: "/u"})] == ["sasl.enabled.mechanisms"]


def test_two_settings_make_a_secure_listener() -> None:
    loaded = load(settings=["listeners=SASL_SSL://:9092", "odradek.tls.folder=/f", "odradek.users.file=/u"])
    assert loaded.config.list_("sasl.enabled.mechanisms") == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    assert loaded.warnings == ()
