"""How much a new API needs: a row, its messages and a function. All else follows, which an API of the test's own shows.

`RetireTopics` (31999) retires topics, each of which needs ALTER. It is in no table but that of this test.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from broker.authorization.document import rows
from broker.network.request import Principal
from broker.testkit.journal import Exchange, Journal
from broker.testkit.journal_views import entry_json
from protocol import newer
from protocol.api import document, rights
from protocol.api.row import Api
from protocol.api.shape import selectors_of
from protocol.api.table import API_BY_KEY, API_BY_NAME
from protocol.declared import String
from protocol.durations import ZERO
from protocol.errors import InvalidTopic
from protocol.newer.declare import ErrorCode as Code
from protocol.newer.declare import Milliseconds, request, response
from tests.unit.broker.faults.breaking import Breaking
from tests.unit.broker.rig import Client, Rig

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
Name = Annotated[TopicName, "string"]
API = Api(31999, "retire_topics", 0, 0, 0, (rights.each("TOPIC", "ALTER"),))


@request(31999, 0, nested=True)
class RetiredTopic:
    name: Name


@request(31999, 0)
class RetireTopicsRequest:
    topics: tuple[RetiredTopic, ...]


@response(31999, 0, nested=True)
class RetiredTopicResult:
    name: Name
    error_code: Code
    error_message: String | None = None


@response(31999, 0)
class RetireTopicsResponse:
    throttle_time: Milliseconds
    results: tuple[RetiredTopicResult, ...]


def retire_topics(_ctx: Any, asked: RetireTopicsRequest) -> RetireTopicsResponse:
    """Raises InvalidTopic for a topic of that name."""
    if any(topic.name == "invalid" for topic in asked.topics):
        raise InvalidTopic("It cannot be retired.")
    results = tuple(RetiredTopicResult(name=topic.name, error_code=ErrorCode.none) for topic in asked.topics)
    return RetireTopicsResponse(throttle_time=ZERO, results=results)


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    messages: Any = ModuleType("protocol.newer.retiring")
    messages.RetireTopicsRequest, messages.RetireTopicsResponse = RetireTopicsRequest, RetireTopicsResponse
    monkeypatch.setitem(sys.modules, messages.__name__, messages)
    monkeypatch.setattr(newer, "MODULES", {**newer.MODULES, (API.key, 0): "retiring:RetireTopics"})
    monkeypatch.setitem(API_BY_KEY, API.key, API)
    monkeypatch.setitem(API_BY_NAME, API.name, API)
    yield


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=SETTINGS) as rig:
        rig.node.dispatcher.serve(API, retire_topics)
        yield rig


async def retire(client: Client, *names: str) -> dict[str, str]:
    topics = tuple(RetiredTopic(name=TopicName(name)) for name in names)
    answer = await client.ask(API.name, 0, topics=topics)
    return {result.name: result.error_code.name for result in answer.results}


async def test_dispatch_answers_it_and_its_failure_has_the_error_for_each_topic(rig: Rig) -> None:
    client = rig.connect()
    assert await retire(client, "a", "b") == {"a": "none", "b": "none"}
    assert await retire(client, "a", "invalid") == dict.fromkeys(("a", "invalid"), "invalid_topic_exception")
    assert rig.node.local.metrics.requests[API.name].errors == {ErrorCode.invalid_topic_exception: 1}


async def test_the_guard_asks_for_its_right_on_each_topic(rig: Rig) -> None:
    client = rig.connect()
    client.connection.principal = Principal("User", "alice")
    assert await retire(client, "a", "b") == dict.fromkeys(("a", "b"), "topic_authorization_failed")


async def test_a_fault_is_selected_by_topic_and_fails_that_part(rig: Rig) -> None:
    assert selectors_of(API) == ("topic",)
    fault = Breaking(rig).set(api="RetireTopics", topic="a", error="POLICY_VIOLATION")
    assert await retire(rig.connect(), "a", "b") == {"a": "policy_violation", "b": "none"}
    assert await retire(rig.connect(), "b") == {"b": "none"}
    assert fault.hits == 1


async def test_the_journal_shows_it(rig: Rig) -> None:
    journal = Journal(rig.node.local.clock)
    journal.begin(rig.node.dispatcher, rig.node.server)
    await retire(rig.connect(), "a")
    (shown,) = [entry_json(entry) for entry in journal.since(None) if isinstance(entry, Exchange)]
    assert (shown["api"], shown["request"]["topics"]) == ("RetireTopics", [{"name": "a"}])
    assert shown["answer"]["results"] == [{"name": "a", "error_code": "NONE", "error_message": None}]


def test_the_pages_list_it() -> None:
    assert document.row(API) == ("| 31999 | RetireTopics | 0-0 | the broker | ALTER: each topic |  | topic | t |  |")
    assert list(rows(API, API.rights)) == ["| RetireTopics | ALTER | each topic | 29 |"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lowest": 3, "highest": 2},
        {"advertised_from": 1},
        {"writes": "topic", "only_reads": True},
        {"pipelined": True, "repeats": True},
    ],
)
def test_a_row_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    fields = SimpleNamespace(key=1, name="x", lowest=0, highest=0, first_flexible=0, rights=rights.NOTHING)
    with pytest.raises(ValueError, match="x:"):
        Api(**vars(fields) | wrong)


def test_a_row_that_lacks_its_rights_is_refused() -> None:
    with pytest.raises(TypeError, match="rights"):
        Api(1, "x", 0, 0, 0)  # type: ignore[call-arg]
