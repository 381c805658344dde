"""A broker for tests of the standard library's unittest: the same for all tests, clean for each, with a report.

class Orders(BrokerTestCase):
    def test_an_order_is_stored(self):
        topic = self.odradek.topic("orders")

`self.odradek` starts a broker when it is first used, which the other tests of the process share; `settings` and
`options` of a class make another one. What a test has made is gone after it, and a failing test says what the broker
holds and was asked last.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from odradek.control import ControlError
from odradek.process import Broker

_running: dict[str, Broker] = {}
"""The brokers of this process, by their settings and options."""


def _broker(settings: Mapping[str, object], options: Mapping[str, Any]) -> Broker:
    key = json.dumps([dict(settings), dict(options)], sort_keys=True, default=str)
    if key not in _running:
        broker = Broker(settings, **options)
        atexit.register(broker.close)
        _running[key] = broker
    return _running[key]


class BrokerMixin:
    """Give a test case `self.odradek`; before `unittest.TestCase`, or another one, among the base classes.

    Attributes:
        odradek_settings: settings of the broker, in server.properties names.
        odradek_options: the other parameters of `odradek.Broker`: profile, security, users, acls, python.
    """

    odradek_settings: ClassVar[Mapping[str, object]] = {}
    odradek_options: ClassVar[Mapping[str, Any]] = {}

    _odradek: Broker | None = None
    _since: int | None = None

    @property
    def odradek(self) -> Broker:
        """The broker in the test's hands. Raises BrokerStartError if it cannot be started."""
        if self._odradek is None:
            broker = _broker(self.odradek_settings, self.odradek_options)
            if not broker.running:
                broker.start()
            mark, self._since = broker.mark(), broker.journal(limit=0).mark
            broker.last_chaos = None
            self._odradek = broker
            self.addCleanup(self._clean, mark)  # type: ignore[attr-defined]
        return self._odradek

    def _clean(self, mark: dict[str, list[str]]) -> None:
        broker, self._odradek = self._odradek, None
        if broker is None:
            return
        if broker.running and not broker.may_end:
            broker.reset(mark)
        else:  # the test has ended it
            broker.empty()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test; what it raises has the broker's report in its notes."""
        name: str = self._testMethodName  # type: ignore[attr-defined]
        setattr(self, name, self._reporting(getattr(self, name)))
        ran: unittest.TestResult | None = super().run(result)  # type: ignore[misc]
        return ran

    def _reporting(self, test: Callable[[], Any]) -> Callable[[], Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def reports_async() -> Any:
                try:
                    return await test()
                except Exception as error:
                    self._add_report(error)
                    raise

            return reports_async

        @functools.wraps(test)
        def reports() -> Any:
            try:
                return test()
            except Exception as error:
                self._add_report(error)
                raise

        return reports

    def _add_report(self, error: Exception) -> None:
        broker = self._odradek
        if broker is None or isinstance(error, unittest.SkipTest):
            return
        try:
            text = broker.report(since=self._since)
        except (ControlError, RuntimeError):
            text = broker.last_words()
        played = "" if broker.last_chaos is None else f"\n{broker.last_chaos.described()}"
        error.add_note(f"odradek:\n{text}{played}")


class BrokerTestCase(BrokerMixin, unittest.TestCase):
    """A test case with `self.odradek`."""


class IsolatedAsyncioBrokerTestCase(BrokerMixin, unittest.IsolatedAsyncioTestCase):
    """The same for tests that are coroutines."""
