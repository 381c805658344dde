"""CRC-32C comes from the compiled module of its package, without the package."""

from __future__ import annotations

import subprocess
import sys

import crc32c
import pytest

from protocol.records import crc


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 40])
def test_it_is_the_packages_function(data: bytes) -> None:
    assert crc.crc32c(data) == crc32c.crc32c(data) == crc._of_package()(data)
    assert crc.crc32c(memoryview(data)[3:], 7) == crc32c.crc32c(data[3:], 7)


def test_the_package_itself_is_not_imported() -> None:
    look = "import sys; from protocol.records import crc; print(sorted({'crc32c', 'email'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
