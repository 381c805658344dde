"""Small text files on any file system supported by Hadoop (local, HDFS, S3A), through the driver's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quoted(identifier: str) -> str:
    """An identifier in backticks; backticks within it are doubled."""
    return "`" + identifier.replace("`", "`" * 2) + "`"


def join(folder: str, *names: str) -> str:
    return "/".join((folder.rstrip("/"), *names))


def delta_name(spark: SparkSession, path: str) -> str:
    """A Delta table's name in SQL; absolute, since Delta takes a relative path for a table of the catalog."""
    return f"delta.{quoted(Files(spark).whole(path))}"


class Files:
    """Paths are Hadoop's: a plain path is on `fs.defaultFS`, the local disk unless configured otherwise."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def exists(self, path: str) -> bool:
        system, at = self._at(path)
        return bool(system.exists(at))

    def matches(self, pattern: str) -> int:
        """The number of files and folders at a path, which may be a pattern (Hadoop's globs)."""
        system, at = self._at(pattern)
        return len(system.globStatus(at) or ())

    def whole(self, path: str) -> str:
        """The path with its file system and without anything relative."""
        system, at = self._at(path)
        return str(system.makeQualified(at).toString())

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        system, at = self._at(folder)
        return sorted(entry.getPath().getName() for entry in system.listStatus(at)) if system.exists(at) else []

    def read(self, path: str) -> str:
        system, at = self._at(path)
        stream = system.open(at)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> None:
        """Create a file, whole or not at all. Raises FileExistsError if there is one already."""
        system, at = self._at(path)
        if system.exists(at):
            raise FileExistsError(path)
        draft = self._jvm.org.apache.hadoop.fs.Path(at.getParent(), f".{at.getName()}.draft")
        system.mkdirs(at.getParent())
        stream = system.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync() if stream.hasCapability("hsync") else stream.flush()
        finally:
            stream.close()
        if not system.rename(draft, at):
            raise FileExistsError(path)

    def _at(self, path: str) -> tuple[Any, Any]:
        at = self._jvm.org.apache.hadoop.fs.Path(path)
        return at.getFileSystem(self._conf), at
