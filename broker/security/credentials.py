"""The SCRAM credentials that the metadata have now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.security.sasl.scram import ScramCredential, user_credential
from controller.scram import ScramMechanism

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache


class Credentials:
    """Of nobody until `use` has said where the metadata are; a restored snapshot brings others."""

    def __init__(self) -> None:
        self._cache: MetadataCache | None = None

    def use(self, cache: MetadataCache) -> None:
        self._cache = cache

    def find(self, mechanism: ScramMechanism, name: str, is_token: bool) -> ScramCredential | None:
        """The credential of a user; if `is_token`, of the delegation token with that id, of which there are none."""
        if self._cache is None or is_token:
            return None
        record = self._cache.image.scram.get((name, mechanism))
        return None if record is None else user_credential(record)
