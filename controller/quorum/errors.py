"""What can go wrong with the metadata log."""

from __future__ import annotations

from protocol.errors import KafkaStorage


class MetadataLogError(KafkaStorage):
    """The metadata log cannot be used as it is found, or cannot be written; the message says why."""


class DamagedError(MetadataLogError):
    """A file does not have what was once written to it."""


class NoRoomError(MetadataLogError):
    """There was no room, or no file descriptor, for records that are refused now; the log takes later ones."""
