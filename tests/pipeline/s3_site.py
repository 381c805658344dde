"""An S3 server of moto in a process of its own, for Spark and for other readers.

Another one is tried with `ODRADEK_TEST_S3=http://127.0.0.1:7070` in the environment; its keys are `key` and `secret`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.ports import free_port

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

    def iceberg_options(self) -> dict[str, str]:
        """Of pyiceberg."""
        return {
            "s3.endpoint": self.address,
            "s3.region": "us-east-1",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
        }

    def arrow(self, **more: Any) -> Any:
        """The file system of pyarrow."""
        from pyarrow import fs

        keys = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
        return fs.S3FileSystem(endpoint_override=self.address, **keys, **more)


@contextmanager
def s3_site() -> Iterator[S3Site]:
    """A server with an empty bucket."""
    if other := os.environ.get("ODRADEK_TEST_S3"):
        site = S3Site(other, f"lakes-{uuid.uuid4().hex[:12]}")
        site.arrow(allow_bucket_creation=True).create_dir(site.bucket)
        yield site
        return
    port = free_port()
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
