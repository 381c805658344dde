"""Runs aiokafka's own tests against a broker: python -m tools.external.aiokafka_suite CHECKOUT [--bootstrap HOST:PORT].

CHECKOUT is a clone of aio-libs/aiokafka at the tag of the version that is installed. Its tests are copied aside, with a
conftest.py on top that hands them the broker where theirs starts a container; nothing of theirs is changed or kept.
What needs SSL, SASL, ACLs or Docker is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from odradek import Broker

# Their tests count on two partitions by default, and one on a broker whose id is 0.
SETTINGS = {"node.id": 0, "num.partitions": 2, "group.initial.rebalance.delay.ms": 0}

OVER_THEIRS = """
import os
import pathlib
import sys
import types

import pytest

containers = types.SimpleNamespace(Container=object)
sys.modules["docker"] = types.SimpleNamespace(models=types.SimpleNamespace(containers=containers))

from .their_conftest import *
from .their_conftest import KafkaServer


@pytest.fixture(scope="session")
def docker():
    return None


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path("tests/ssl_cert")


@pytest.fixture(scope="class")
def acl_manager():
    return None


@pytest.fixture(scope="class")
def kafka_config():
    return None


@pytest.fixture(scope="class")
def kerberos_utils():
    return None


@pytest.fixture(scope="session")
def kafka_server():
    host, port = os.environ["BOOTSTRAP"].split(":")
    return KafkaServer(host, int(port), 1, 1, 1, None)
"""

OPTIONS = [
    *("-p", "no:cacheprovider", "-q", "-o", "addopts=", "-o", "filterwarnings="),
    *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
    # A version of theirs to go by, for what is skipped with older brokers; no image is started.
    *("--docker-image", "kafka:4.1.0", "--no-pull"),
    *("--ignore", "tests/coordinator/test_assignors.py", "--ignore", "tests/test_sasl.py"),
    *("-k", "not ssl and not sasl and not acl"),
]


@click.command()
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--bootstrap", help="HOST:PORT of a running broker, with two partitions to a new topic.")
@click.argument("more", nargs=-1)
def main(checkout: Path, bootstrap: str | None, more: tuple[str, ...]) -> None:
    """CHECKOUT's tests; MORE, if given, tells pytest which of them, and how."""
    with ExitStack() as stack:
        if bootstrap is None:
            bootstrap = stack.enter_context(Broker(SETTINGS, profile="dev")).bootstrap_servers
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aiokafka-tests-")))
        shutil.copytree(checkout / "tests", place / "tests")
        (place / "tests" / "conftest.py").rename(place / "tests" / "their_conftest.py")
        (place / "tests" / "conftest.py").write_text(OVER_THEIRS)
        command = [sys.executable, "-m", "pytest", *OPTIONS, *(more or ("tests",))]
        run = subprocess.run(command, cwd=place, env=os.environ | {"BOOTSTRAP": bootstrap}, check=False)
    raise SystemExit(run.returncode)


if __name__ == "__main__":
    main()
