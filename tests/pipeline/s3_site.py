"""An S3 server of moto in a process of its own, for Spark and for other readers."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

SECONDS = 120


@dataclass(frozen=True, slots=True)
class S3Site:
    """A server at an address, with one bucket; any keys will do."""

    address: str
    bucket: str = "lakes"

    def spark_conf(self) -> dict[str, str]:
        """Of Hadoop's S3A, for this bucket alone."""
        of_bucket = f"fs.s3a.bucket.{self.bucket}"
        return {
            f"{of_bucket}.endpoint": self.address,
            f"{of_bucket}.endpoint.region": "us-east-1",
            f"{of_bucket}.path.style.access": "true",
            f"{of_bucket}.access.key": "key",
            f"{of_bucket}.secret.key": "secret",
        }

    def delta_options(self) -> dict[str, str]:
        """Of deltalake."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def arrow(self) -> Any:
        """The file system of pyarrow."""
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key="key", secret_key="secret", endpoint_override=self.address, region="us-east-1"
        )


@contextmanager
def moto_server() -> Iterator[S3Site]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    site = S3Site(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                with urlopen(Request(f"{site.address}/{site.bucket}", method="PUT")):
                    break
            except URLError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield site
    finally:
        process.terminate()
        process.wait()
