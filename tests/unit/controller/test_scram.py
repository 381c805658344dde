"""SCRAM credentials: what is stored of them, and who is refused. The answers are golden."""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest

from controller.scram import Alteration, ScramDeletion, ScramMechanism, ScramUpsertion, decide
from metadata.image import EMPTY, MetadataImage
from protocol.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from protocol.metadata.credentials import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tests.unit.controller.images import after

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED_PASSWORD = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
ODD_NAME = "a/b \N{SNOWMAN}"


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, SALT, SALTED_PASSWORD)


def altered(image: MetadataImage, *alterations: Alteration) -> MetadataImage:
    return after(image, decide(image, alterations))


def test_a_credential_is_stored_as_rfc_7677_has_it_and_never_the_password() -> None:
    decision = decide(EMPTY, [upsertion("user")])
    assert decision.response == [("user", None)]
    assert decision.records == [
        UserScramCredentialRecord(
            name="user",
            mechanism=SHA_256,
            salt=SALT,
            stored_key=b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
            server_key=b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
            iterations=4096,
        )
    ]


def test_a_user_may_have_one_credential_of_each_mechanism() -> None:
    image = altered(EMPTY, upsertion(ODD_NAME), upsertion("other", SHA_512, 5000))
    decision = decide(image, [upsertion(ODD_NAME, SHA_512, 6000), ScramDeletion("other", SHA_512)])
    assert decision.records[1] == RemoveUserScramCredentialRecord(name="other", mechanism=SHA_512)
    image = after(image, decision)
    assert {key: record.iterations for key, record in image.scram.items()} == {
        (ODD_NAME, SHA_256): 4096,
        (ODD_NAME, SHA_512): 6000,
    }


def test_an_upsertion_replaces_the_credential_of_its_mechanism() -> None:
    image = altered(altered(EMPTY, upsertion("u")), upsertion("u", iterations=8192))
    assert [record.iterations for record in image.scram.values()] == [8192]


def test_one_users_refusal_leaves_the_others() -> None:
    decision = decide(
        EMPTY, [ScramDeletion("none", SHA_256), upsertion("one"), upsertion("twice"), upsertion("twice", SHA_512)]
    )
    assert [(user, type(error)) for user, error in decision.response] == [
        ("none", ResourceNotFound),
        ("one", type(None)),
        ("twice", DuplicateResource),
    ]
    assert [record.name for record in decision.records] == ["one"]


@pytest.mark.parametrize(
    ("alteration", "error"),
    [
        (upsertion(""), UnacceptableCredential),
        (ScramDeletion("", SHA_256), UnacceptableCredential),
        (upsertion("u", 0), UnsupportedSaslMechanism),
        (ScramDeletion("u", 3), UnsupportedSaslMechanism),
        (ScramDeletion("u", SHA_512), ResourceNotFound),
        (upsertion("u", iterations=4095), UnacceptableCredential),
        (upsertion("u", iterations=16385), UnacceptableCredential),
        (ScramUpsertion("u", SHA_256, 4096, SALT, b""), UnacceptableCredential),
    ],
)
def test_what_is_refused(alteration: Alteration, error: type[KafkaError]) -> None:
    image = altered(EMPTY, upsertion("u"))
    decision = decide(image, [alteration])
    assert [type(outcome) for _, outcome in decision.response] == [error]
    assert not decision.records


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_the_limits_of_iterations_are_allowed(iterations: int) -> None:
    assert decide(EMPTY, [upsertion("u", iterations=iterations)]).response == [("u", None)]
