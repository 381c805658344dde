"""Whether a certificate may replace another while the broker runs (`SslFactory.CertificateEntries`)."""

from __future__ import annotations

from cryptography.x509 import Certificate, ExtensionNotFound, SubjectAlternativeName

from broker.config.listener_settings import ListenerSettings
from broker.security.errors import SecurityError
from broker.security.tls.distinguished_names import subject_of
from broker.security.tls.stores import readable


def require_same_names(settings: ListenerSettings, old: Certificate, new: Certificate) -> None:
    """Raises SecurityError: clients that check whom they talk to would no longer find the name that they know."""
    where = settings.found("ssl.keystore.location")
    with readable(where):
        former, subject = subject_of(old), subject_of(new)
        missing = _alternative_names(old) - _alternative_names(new)
    if not settings.boolean("ssl.allow.dn.changes") and former != subject:
        raise SecurityError(
            f"{where}: expected a certificate of {former!r}, not {subject!r}; or ssl.allow.dn.changes=true"
        )
    if missing and not settings.boolean("ssl.allow.san.changes"):
        raise SecurityError(
            f"{where}: expected a certificate that has {', '.join(sorted(missing))} too; or ssl.allow.san.changes=true"
        )


def _alternative_names(certificate: Certificate) -> set[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}
