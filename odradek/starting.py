"""The start of a broker for a test: its folder, its settings, and an end whatever happens.

The temporary folder is locked by its process for as long as that lives: it is removed with the broker, or by a later
process that finds it unlocked. `Entered` is what is started by `with` or `async with`, and closed at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.clock import MANIFEST, Snapshot, path_of


class Entered:
    """A start that fails, or is cancelled, leaves nothing behind."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio  # see odradek/control.py

        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread goes on, and nobody would ever stop what it starts.
            await asyncio.to_thread(self.close)
            await asyncio.gather(starting, return_exceptions=True)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)


PREFIX = "odradek-"
OWNER = ".owner"
"""A file that the owning process keeps locked for as long as it lives."""


def make_workplace() -> Path:
    """A new folder, locked by this process. Folders of processes that were killed are removed first."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # Locked before it has its name, so that nobody finds it unlocked. The lock goes with the process.
    named_later = folder / f"{OWNER}.new"
    descriptor = os.open(named_later, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    named_later.rename(folder / OWNER)
    _locks[folder] = descriptor
    return folder


def secret_file(folder: Path, name: str, text: str) -> Path:
    """A file in the folder that only this user can read."""
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def remove_workplace(folder: Path, owner: int) -> None:
    """Remove the folder, but not at the end of a forked child: it is its parent's (`owner`, a process id)."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        descriptor = _locks.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)


_locks: dict[Path, int] = {}


def _remove_abandoned(above: Path) -> None:
    for folder in above.glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    """Say whether it is one of ours whose process has ended."""
    try:
        descriptor = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return os.fstat(descriptor).st_uid == os.getuid()


FOR_TESTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "odradek.http.port": "-1",
    "odradek.control": "127.0.0.1:0",
}
"""The settings of a broker for tests besides its profile."""

PROFILES = ("test", "dev", "kafka")
"""The profiles of a broker: docs/configuration.md has what they set."""


SECRET_SETTINGS = (".password", ".jaas.config", ".keystore.key", ".secret", ".secret.key", ".token", ".passphrase")
"""How names of settings end that go through a file: others can read a process's command line."""


def require_profile(profile: str) -> None:
    """Raises ValueError for an unknown one."""
    if profile not in PROFILES:
        raise ValueError(f"profile = {profile!r}: expected one of {', '.join(PROFILES)}")


def first_state(snapshot: Snapshot | str | os.PathLike[str] | None, data_dir: Path) -> dict[str, str]:
    """The setting for what the broker begins with. Raises ValueError."""
    if snapshot is None:
        return {}
    path = path_of(snapshot)
    if not os.path.exists(os.path.join(path, MANIFEST)):
        raise ValueError(f"snapshot = {path!r} is no snapshot: it has no {MANIFEST}")
    if (data_dir / "meta.properties").exists():
        raise ValueError(
            f"snapshot = {path!r}: data_dir = {str(data_dir)!r} has data already; restore(...) replaces it"
        )
    return {"odradek.snapshot": path}


def as_list(value: str) -> list[str]:
    """The folders that a broker takes `log.dirs` for."""
    return [part.strip() for part in value.split(",")]


def properties_text(settings: Mapping[str, str]) -> str:
    """The settings as a properties file has them, in ASCII."""
    return "".join(f"{key}={''.join(map(_escaped, value))}\n" for key, value in settings.items())


def _escaped(char: str) -> str:
    """A character of a value, as UTF-16 where it could mean something else or is beyond ASCII."""
    if char.isascii() and char.isprintable() and char not in "\\ ":
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
