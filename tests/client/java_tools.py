"""Apache Kafka's jars: its Java client behind a pipe, and its command-line tools."""

from __future__ import annotations

import atexit
import functools
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
JARS = ROOT / "build" / "java"
PIPE = Path(__file__).parent / "java" / "Pipe.java"
GROUP_MEMBER = Path(__file__).parent / "java" / "GroupMember.java"
JVM_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8"]
END = -1

CONFIGS = "org.apache.kafka.tools.ConfigCommand"


def missing() -> str | None:
    """Why the Java tests cannot run here; None when they can."""
    if shutil.which("java") is None:
        return "java is not installed (tests/client/install-tools.sh)"
    if not any(JARS.glob("kafka-clients-*.jar")):
        return f"Apache Kafka's jars are not in {JARS} (tests/client/install-tools.sh)"
    return None


def java(
    main: str, *arguments: str, stdin: bytes | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run a class of Apache Kafka's jars to its end."""
    command = ["java", *JVM_OPTIONS, "-cp", f"{JARS}/*", main, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)


def tool(name: str, bootstrap: str, *arguments: str, stdin: bytes | None = None) -> str:
    """What a command-line tool prints, which must succeed."""
    run = java(name, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)
    assert run.returncode == 0, said(run)
    return run.stdout.decode()


def said(run: subprocess.CompletedProcess[bytes]) -> str:
    """The end of what a tool printed, errors included."""
    return (run.stdout[-4000:] + b"\n" + run.stderr[-4000:]).decode()


@functools.cache
def compiled(source: Path, jars: Path = JARS) -> list[str]:
    """The command of a Java program of one file, compiled once in this process, since many of them are started.

    Each process has classes of its own: a JVM must not read a class that another test process is writing.
    """
    classes = tempfile.mkdtemp(prefix="java-classes-")
    atexit.register(shutil.rmtree, classes)
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, str(source)], check=True, timeout=60)
    return ["java", *JVM_OPTIONS, "-cp", f"{classes}:{jars}/*", source.stem]


class JavaPipe:
    """One JVM running Pipe.java; commands go one after another."""

    def __init__(self) -> None:
        command = ["java", *JVM_OPTIONS, "-cp", f"{JARS}/*", str(PIPE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        self._lock = threading.Lock()

    def produce(self, bootstrap: str, topic: str, values: Iterable[bytes], compression: str) -> None:
        with self._lock:
            self._command(f"produce {bootstrap} {topic} {compression}")
            for value in values:
                self._in.write(struct.pack(">i", len(value)) + value)
            self._in.write(struct.pack(">i", END))
            self._in.flush()
            (size,) = struct.unpack(">H", self._exactly(2))
            answer = self._exactly(size).decode()
        assert answer == "ok", answer

    def consume(self, bootstrap: str, topic: str, count: int) -> list[bytes]:
        found: list[bytes] = []
        with self._lock:
            self._command(f"consume {bootstrap} {topic} {count}")
            while len(found) < count:
                (size,) = struct.unpack(">i", self._exactly(4))
                if size == END:
                    break
                found.append(self._exactly(size))
        return found

    def close(self) -> None:
        self._in.close()
        self._out.close()
        self._process.wait(10)

    def _command(self, text: str) -> None:
        self._in.write(struct.pack(">H", len(text)) + text.encode())
        self._in.flush()

    def _exactly(self, size: int) -> bytes:
        data = self._out.read(size)
        assert len(data) == size, "the Java client's process ended"
        return data
