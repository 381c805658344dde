"""Runs of pytest with the plugin, as a user's suite has it."""

from __future__ import annotations

import textwrap

import pytest

QUIET = ("-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")


def run(pytester: pytest.Pytester, source: str, *arguments: str, conftest: str = "") -> pytest.RunResult:
    """Run these tests in this process, with the plugin as the entry point loads it."""
    if conftest:
        pytester.makeconftest(textwrap.dedent(conftest))
    pytester.makepyfile(textwrap.dedent(source))
    return pytester.runpytest_inprocess(*QUIET, "-o", "asyncio_mode=strict", *arguments)
