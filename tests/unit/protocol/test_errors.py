"""Every code of Kafka has its exception."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from protocol import errors


def test_every_code_has_a_class() -> None:
    assert set(errors.type_by_code) == set(ErrorCode) - {ErrorCode.none}
    for code, kind in errors.type_by_code.items():
        assert getattr(errors, kind.__name__) is kind
        assert kind().code is code
        assert kind().message == kind.default_message != ""


def test_messages() -> None:
    assert errors.UnknownTopicOrPartition().explicit_message is None
    error = errors.InvalidRecord("wrong", ((3, "no key"),))
    assert (str(error), error.message, error.explicit_message) == ("wrong", "wrong", "wrong")
    assert error.record_errors == ((3, "no key"),)
    assert error.on_wire
    assert not errors.InvalidRecord("wrong").on_wire
    assert errors.CorruptMessage("wrong", on_wire=True).on_wire


def test_a_special_case_keeps_its_parents_code() -> None:
    class Special(errors.InvalidRequest):
        """One more reason."""

    assert Special("why").code is ErrorCode.invalid_request
    assert errors.type_by_code[ErrorCode.invalid_request] is errors.InvalidRequest
