"""Stock clients in Go (franz-go) and JavaScript (kafkajs): their programs, and what those that log in say."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client.secure import Login

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"


@functools.cache
def franz_go() -> list[str] | str:
    """The command that logs in, built if need be; or why there is none."""
    return _built("franz-go-login", ".")


@functools.cache
def franz_go_failover() -> list[str] | str:
    """The command of a transactional producer and of a group's member, built if need be; or why there is none."""
    return _built("franz-go-failover", "./failover")


@functools.cache
def franz_go_share() -> list[str] | str:
    """The command of a share group's member, built if need be; or why there is none."""
    return _built("franz-go-share", "./share")


@functools.cache
def franz_go_registry() -> list[str] | str:
    """The command of a registry's client, built if need be; or why there is none."""
    return _built("franz-go-registry", "./registry")


def _built(name: str, package: str) -> list[str] | str:
    go = shutil.which("go")
    if go is None:
        return "go is not installed"
    program = BUILD / name
    done = subprocess.run(
        [go, "build", "-o", str(program), package],
        cwd=HERE / "go",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return f"franz-go cannot be built: {done.stderr[-500:]}" if done.returncode else [str(program)]


@functools.cache
def kafkajs() -> list[str] | str:
    """The command that logs in, its packages installed if need be; or why there is none."""
    return _installed("login.js")


@functools.cache
def kafkajs_registry() -> list[str] | str:
    """The command of a registry's client, its packages installed if need be; or why there is none."""
    return _installed("registry.js")


def _installed(program: str) -> list[str] | str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not installed"
    folder = BUILD / "kafkajs"
    shutil.copytree(HERE / "node", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run([npm, "ci", "--silent"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return f"kafkajs cannot be installed: {done.stderr[-500:]}" if done.returncode else [node, str(folder / program)]


COMMANDS = {"franz-go": franz_go, "kafkajs": kafkajs}


def send(name: str, bootstrap: str, topic: str, login: Login) -> str:
    """What came of sending a record, as the client says it."""
    command = _command(name, bootstrap, topic, login)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def session(name: str, bootstrap: str, topic: str, login: Login) -> Iterator[Callable[[str], str]]:
    """A client that goes on: called with a record, what came of sending it."""
    command = [*_command(name, bootstrap, topic, login), "session"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def send_one(record: str) -> str:
            lines.write(f"{record}\n")
            return answers.readline().strip()

        try:
            yield send_one
        finally:
            process.kill()


def _command(name: str, bootstrap: str, topic: str, login: Login) -> list[str]:
    command = COMMANDS[name]()
    assert isinstance(command, list), command
    told = {
        "bootstrap": bootstrap,
        "topic": topic,
        "protocol": login.protocol,
        "mechanism": login.mechanism,
        "user": login.user,
        "password": login.password,
        "token": login.token,
        "ca": "" if login.ca is None else str(login.ca),
        "certificate": "" if login.certificate is None else str(login.certificate),
        "patience_s": login.patience_s,
    }
    return [*command, json.dumps(told)]
