"""Groups, transactions, clients, the cluster, the kit and the journal on the console's pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.offset_commit.v2.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from broker.console import groups
from broker.console.history import History
from broker.testkit.control.faults import faults_of
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.members import CONFIG, ClassicMember, commit
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import keep_journal
from tests.unit.broker.transactions import Producer


async def test_a_group_shows_its_members_its_lag_over_time_and_why_it_waits() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        append(rig, "t", *orders(42))
        await ClassicMember(rig, "mail", "t", client_id="mailer").enter({"t": [0]})
        history = History(rig.node)
        await history.sample_lags()
        append(rig, "t", *orders(8))
        await history.sample_lags()
        async with browsing(rig, history) as browser:
            listed = await browser.get("/groups")
            assert "mail Stable classic 1 50" in listed.text
            assert "There is no such group" in (await browser.get("/groups?state=Empty&q=mail")).text
            page = await browser.get("/group?id=mail")
            assert "Lag, all partitions 50" in page.text
            assert "mailer" in page.text
            assert "t 0 – 50 50 mailer" in page.text
            assert "there is no group male" in (await browser.get("/group?id=male", 404)).text
        assert list(history.lags("mail").total) == [42, 50]


async def test_groups_are_found_by_the_topic_that_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Rig(config=CONFIG) as rig:
        for name in ("t", "other"):
            await rig.create(name)
        await ClassicMember(rig, "mail", "t").enter({"t": [0]})
        await ClassicMember(rig, "news", "other").enter({"other": [0]})
        await commit(rig.connect(), "old", "t", {0: 0})
        async with browsing(rig) as browser:
            assert "groups?topic=t" in (await browser.get("/topic?name=t")).links()
            found = await browser.get("/groups?topic=t&sort=group")
            assert [link for link in found.links() if link.startswith("group?")] == ["group?id=mail", "group?id=old"]
            assert "There is no such group" in (await browser.get("/groups?topic=nowhere")).text
            monkeypatch.setattr(groups, "MOST_SORTED", 2)
            assert "1 more groups were not asked" in (await browser.get("/groups?topic=t")).text


@pytest.mark.long
async def test_a_transaction_shows_its_age_and_what_it_holds() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await rig.node.coordinators.transactions.ensure_topic()
        producer = Producer(rig.connect(), "till")
        await producer.init()
        await producer.produce(b"held", 0)
        await rig.clock.run(12_000)
        async with browsing(rig) as browser:
            page = await browser.get("/transactions?open=yes")
            assert "till Ongoing 12.0 s" in page.text
            assert "t-0 0 1 till" in page.text
            assert "1 record of t-0 behind it" in (await browser.get("/transaction?id=till")).text
        assert await producer.end(commit=True) == "none"
        async with browsing(rig) as browser:
            assert "No transaction is open" in (await browser.get("/transactions")).text


async def test_an_open_transaction_is_aborted_where_that_is_let() -> None:
    async with Rig(config={**CONFIG, "odradek.console.write": "true"}) as rig:
        await rig.create("t")
        await rig.node.coordinators.transactions.ensure_topic()
        producer = Producer(rig.connect(), "till")
        await producer.init()
        await producer.produce(b"held", 0)
        async with browsing(rig) as browser:
            place = await browser.post("/abort-transaction", transactional_id="till")
            assert "CompleteAbort" in (await browser.get(f"/{place}")).text
            assert "no open transaction" in await browser.post("/abort-transaction", 409, transactional_id="till")


async def test_clients_show_their_id_and_software_once_they_have_said_them() -> None:
    async with Rig(config=CONFIG) as rig:
        client = rig.connect(host="10.9.8.7")
        await client.ask(
            "api_versions", 3, client_id="till-7", client_software_name="librdkafka", client_software_version="2.1"
        )
        async with browsing(rig) as browser:
            page = await browser.get("/clients?q=RDKAFKA")
            assert "till-7 librdkafka 2.1 10.9.8.7:50000 PLAINTEXT User:ANONYMOUS" in page.text
            assert "ApiVersions 3 1" in page.text
            assert "No such client" in (await browser.get("/clients?q=nobody")).text


async def test_the_cluster_shows_brokers_and_partitions_to_look_at() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t", 3)
        async with browsing(rig) as browser:
            page = await browser.get("/cluster")
        assert "1 alive" in page.text
        assert "broker.example:9092 3 3 1" in page.text
        assert "Every partition has a leader" in page.text


async def test_faults_are_shown_and_removed() -> None:
    async with Rig(config={**CONFIG, "odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        assert "no control interface" in (await browser.get("/kit")).text
        rig.node.faults = faults_of(rig.node)
        fault = rig.node.faults.set({"api": "Produce", "delay": 2})
        assert "api=Produce, delay=2" in (await browser.get("/kit")).text
        assert await browser.post("/remove-fault", id=fault.id) == "kit?done=The+fault+was+removed."
        assert "None is set." in (await browser.get("/kit")).text


async def test_the_journal_is_filtered_and_shows_the_newest_first() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            assert "A journal is kept only where" in (await browser.get("/journal")).text
            keep_journal(rig)
            await ClassicMember(rig, "mail", "t", client_id="mailer").enter({"t": [0]})
            page = await browser.get("/journal")
            assert page.text.index("SyncGroup") < page.text.index("JoinGroup")
            assert "SyncGroup" not in (await browser.get("/journal?api=JoinGroup&client_id=mailer")).text
            assert "expected a name or a number" in (await browser.get("/journal?api=Jion", 400)).text


async def test_the_journal_lists_a_question_that_is_answered_as_before_once() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await rig.node.coordinators.groups.ensure_topic()
        keep_journal(rig)
        client, other = rig.connect(), rig.connect()
        for _ in range(5):
            await client.ask("metadata", 1, topics=None)
            await client.ask("find_coordinator", 1, key="g", key_type=0)
        await other.ask("metadata", 1, topics=())
        await rig.create("u")
        await client.ask("metadata", 1, topics=None)
        async with browsing(rig) as browser:
            page = await browser.get("/journal?api=Metadata")
            assert page.text.count("request Metadata") == 3  # of all topics with two answers, and of none
            assert page.text.count("5 times") == 1
            assert "1–3 of 3 entries" in page.text
            assert "FindCoordinator 5 times" in (await browser.get("/journal")).text


async def test_the_group_without_a_name_is_shown() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await rig.node.coordinators.groups.ensure_topic()
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
        ids = {"group_id": "", "generation_id_or_member_epoch": -1, "member_id": ""}
        await rig.connect().ask("offset_commit", 2, **ids, retention_time=timedelta(milliseconds=-1), topics=(topic,))
        async with browsing(rig) as browser:
            listed = await browser.get("/groups")
            assert '"" Empty classic' in listed.text
            assert "group?id=" in listed.links()
            assert 'Group ""' in (await browser.get("/group?id=")).text
