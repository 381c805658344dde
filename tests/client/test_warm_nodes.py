"""Warm starts: a forked node is a process of its own, ends as any other does, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from odradek import Broker, BrokerStartError, Cluster, location, process
from odradek.warm import READY, NoForkError, Template, Warm
from tests.client.plugin_runs import run as run_plugin
from tests.client.test_odradek_ends import ends, run

pytest_plugins = ["pytester"]
pytestmark = [
    pytest.mark.usefixtures("own_cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="nodes are forked on Linux alone"),
]


@pytest.fixture(autouse=True)
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Warm]:
    """What decides in this test: it makes a template for the first start."""
    own = Warm()
    own.expect_several()
    monkeypatch.setattr(process, "WARM", own)
    yield own
    own.close()


def descriptors(broker: Broker) -> Counter[str]:
    """What a broker's descriptors are of, each as it is the same for another broker.

    A file that another process has replaced meanwhile, as the kept codes of protocol.compiled, is still the same file.
    """
    folder, workplace = Path(f"/proc/{broker.pid}/fd"), str(broker.log_path.parent)
    targets = [os.readlink(link) for link in folder.iterdir()]
    own = (target.removesuffix(" (deleted)").replace(workplace, "OWN") for target in targets)
    return Counter(target.split(":[")[0] for target in own)


def status(broker: Broker, *names: str) -> dict[str, str]:
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    values = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {name: values[name] for name in names}


# -- its own


def test_descriptors_and_signals_are_those_of_a_plain_start() -> None:
    with Broker(warm=False) as plain, Broker() as first, Broker() as second:
        assert (plain.warm, first.warm, second.warm) == (False, True, True)
        for each in (plain, first, second):
            each.topic("t")  # and so the control interface has been loaded, where that is done later
        assert descriptors(first) == descriptors(second) == descriptors(plain)
        names = ("SigBlk", "SigIgn", "SigCgt", "ShdPnd")
        assert status(first, *names) == status(second, *names) == status(plain, *names)
        assert os.getpgid(second.pid) == second.pid


def test_folder_and_umask_are_those_of_the_moment_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as before:
        pass
    monkeypatch.chdir(tmp_path)
    umask = os.umask(0o027)
    try:
        with Broker() as broker, Broker(warm=False) as plain:
            assert broker.warm
            assert os.readlink(f"/proc/{broker.pid}/cwd") == str(tmp_path)
            assert status(broker, "Umask") == status(plain, "Umask") == {"Umask": "0027"}
    finally:
        os.umask(umask)
    assert not before.running


def test_the_environment_is_that_of_the_moment_of_the_start(tmp_path: Path) -> None:
    def environment_is_read(name: str, **variables: str) -> str:
        own = {**os.environ, "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "KAFKA_LOG_DIRS": str(tmp_path / name)}
        read_end, write_end = os.pipe()
        with open(tmp_path / f"{name}.log", "wb") as log, open(read_end) as ready:
            arguments = ["serve", "--exit-with-parent", "--ready-fd", str(READY)]
            node = template.fork(arguments, own | variables, log.fileno(), write_end, 60)
            os.close(write_end)
            said = json.loads(ready.readline())
            node.terminate()
            assert node.wait(60) == 0
            node.close()
        assert said["pid"] == node.pid
        return (tmp_path / f"{name}.log").read_text()

    template = Template(os.environ)
    try:
        assert '"level": "debug"' in environment_is_read("a", ODRADEK_LOG_LEVEL="debug")
        assert '"level": "debug"' not in environment_is_read("b")
    finally:
        template.close()


SAYS_WHAT_IT_HAS = """
import json, os, random, secrets, ssl, sys, time, uuid
sys.path.insert(0, {root!r})
from broker import template

random.random()  # the template has used it
arguments = template.Template(int(sys.argv[2])).arguments_of_node()
own = [random.random(), secrets.token_hex(), uuid.uuid4().hex, uuid.uuid1().hex, ssl.RAND_bytes(16).hex()]
rest = {{"arguments": arguments, "variable": os.environ.get("VARIABLE"), "zone": time.tzname[0], "hash": hash("a")}}
with os.fdopen({ready}, "w") as ready:
    print(json.dumps({{"own": own, **rest}}), file=ready)
"""


def test_random_numbers_are_its_own_and_the_seed_of_hashes_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    program = SAYS_WHAT_IT_HAS.format(root=str(Path(location.__file__).parents[1]), ready=READY)
    monkeypatch.setattr(location, "command", lambda arguments: [sys.executable, "-I", "-c", program, *arguments])
    template = Template(os.environ)
    said = []
    try:
        for number in (1, 2):
            read_end, write_end = os.pipe()
            with open(os.devnull, "wb") as log, open(read_end) as ready:
                own = {"VARIABLE": str(number), "TZ": f"ZONE{'AB'[number - 1]}0"}
                node = template.fork(["of", str(number)], own, log.fileno(), write_end, 60)
                os.close(write_end)
                said.append(json.loads(ready.readline()))
                assert node.wait(60) == 0
                node.close()
    finally:
        template.close()
    assert not set(said[0].pop("own")) & set(said[1].pop("own"))
    assert said[0].pop("hash") == said[1].pop("hash")
    assert said == [
        {"arguments": ["of", "1"], "variable": "1", "zone": "ZONEA"},
        {"arguments": ["of", "2"], "variable": "2", "zone": "ZONEB"},
    ]


def test_each_log_has_what_its_broker_said() -> None:
    with Broker() as first, Broker({"odradek.log.level": "debug"}) as second:
        for broker, other in ((first, second), (second, first)):
            assert f"kafka://{broker.bootstrap_servers}" in broker.log()
            assert other.bootstrap_servers not in broker.log()
            assert ('"level": "debug"' in broker.log()) == (broker is second)
        assert first.control.get("/status")["cluster_id"] != second.control.get("/status")["cluster_id"]


# -- what it has loaded

TELLS_WHAT_IS_LOADED_LATER = """
import atexit, sys
sys.path.insert(0, {root!r})
import broker.__main__
from broker import program, template

for name in template.LOADED_LATER:
    template.load(name)
for name in template.OF_CLIENTS:
    template.make_ready(name)
arguments = template.Template(int(sys.argv[2])).arguments_of_node()
before = set(sys.modules)
atexit.register(lambda: print("later", *sorted(set(sys.modules) - before), flush=True))
program.main(arguments, prog_name="odradek")
"""


def test_the_template_has_loaded_what_a_node_of_a_test_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    program = TELLS_WHAT_IS_LOADED_LATER.format(root=str(Path(location.__file__).parents[1]))
    monkeypatch.setattr(
        location, "command", lambda arguments, _=None: [sys.executable, "-I", "-c", program, *arguments]
    )
    with Cluster(1) as cluster:
        (broker,) = cluster.brokers
        orders = cluster.topic("orders")
        producer = Producer(cluster.client_config("confluent") | {"transactional.id": "t"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(str(orders), b"1")
        producer.commit_transaction()
        consumer = Consumer(cluster.client_config("confluent", **{"group.id": "g", "auto.offset.reset": "earliest"}))
        consumer.subscribe([str(orders)])
        assert consumer.consume(1, timeout=30)
        consumer.commit(asynchronous=False)
        consumer.close()
        with cluster.fault(api="Produce", phase="before_reply", disconnect=True, count=1):
            orders.records()
        assert broker.warm
        cluster.stop()
        later = [
            line.split()[1:]
            for node in (broker, cluster.controller)
            for line in node.log().splitlines()
            if line.startswith("later")
        ]
    assert len(later) == 2
    # The messages are loaded in the versions that a client asks for.
    names = {name for names in later for name in names if not name.startswith(("kio.schema", "protocol.newer"))}
    assert names == set()


# -- its end


def test_exit_statuses_come_through() -> None:
    with Broker() as broker:
        assert broker.stop() == 0
        broker.start()
        os.kill(broker.pid, signal.SIGSEGV)
        broker._child.wait(60)
        assert broker.died
        assert "died, exit status -11 (SIGSEGV)" in broker.last_words()
        broker.start()
        assert broker.warm
        broker.kill()
        assert not broker.running and not broker.died


def test_a_start_that_fails_says_what_a_plain_one_says() -> None:
    said = []
    for warm in (True, False):
        with pytest.raises(BrokerStartError) as caught:
            Broker({"num.partitions": "many"}, warm=warm).start()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "num.partitions" in said[0]


def test_nodes_are_killed_with_their_template_and_start_again_with_their_data(warm: Warm) -> None:
    with Broker() as broker, Broker() as other:
        broker.topic("orders").produce(b"7")
        template = warm.template
        assert template is not None
        os.kill(template.pid, signal.SIGKILL)
        for each in (broker, other):
            each._child.wait(60)
            assert each.died
            assert "exit status -9 (SIGKILL)" in each.last_words()
        broker.start()
        assert broker.warm and warm.template is not template
        assert [record.value for record in broker.topic("orders").records()] == [b"7"]


SEVERAL_AND_KILLED = """
import os, signal
from odradek import Broker
from odradek.warm import WARM

brokers = [Broker().start() for _ in range(3)]
child = {child}
if not child:
    os.closerange(1, 3)
    signal.pause()
print(*(broker.warm for broker in brokers))
print(WARM.template.pid, *(broker.pid for broker in brokers), flush=True)
print(child, flush=True)
{end}
"""


@pytest.mark.parametrize("child", ["1", "os.fork()"], ids=["alone", "with a forked child that lives on"])
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "del brokers"])
def test_nothing_is_left_when_the_process_ends(tmp_path: Path, child: str, end: str) -> None:
    which, pids, left = run(SEVERAL_AND_KILLED.format(child=child, end=end), tmp_path).stdout.splitlines()
    try:
        assert which == "False True True"  # the first start in a process is plain
        assert all(ends(int(pid)) for pid in pids.split())
        assert list(tmp_path.iterdir()) == []
    finally:
        if left != "1":
            os.kill(int(left), signal.SIGKILL)


def test_a_killed_node_leaves_the_others_and_the_template_alone(warm: Warm) -> None:
    with Broker() as broker, Broker() as other:
        template = warm.template
        broker.kill()
        assert other.topic("t").partitions
        broker.start()
        assert broker.warm and warm.template is template


def test_a_node_that_comes_too_late_for_its_start_is_killed_and_the_others_go_on(warm: Warm, tmp_path: Path) -> None:
    with Broker() as other:
        template = warm.template
        assert template is not None
        os.kill(template.pid, signal.SIGSTOP)
        read_end, write_end = os.pipe()
        with open(tmp_path / "log", "wb") as log, open(read_end, "rb") as ready:
            arguments = ["serve", "--set", f"log.dirs={tmp_path / 'data'}", "--ready-fd", str(READY)]
            with pytest.raises(NoForkError, match="timed out") as caught:
                template.fork(arguments, os.environ, log.fileno(), write_end, 0.1)
            os.kill(template.pid, signal.SIGCONT)
            os.close(write_end)
            assert ready.read() == b""  # its end is closed by now
        assert not caught.value.for_good
        assert other.running
        other.restart()
        assert other.warm and warm.template is template


def test_what_the_template_cannot_do_is_started_plain_and_said(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    command = location.command

    def failing(arguments: list[str], python: Any = None) -> list[str]:
        return (
            [sys.executable, "-c", "raise SystemExit('no room')"]
            if arguments[0] == "template"
            else command(arguments, python)
        )

    monkeypatch.setattr(location, "command", failing)
    monkeypatch.setattr("odradek.pytest_plugin.WARM", warm)
    result = run_plugin(pytester, "def test_fresh(odradek_fresh_broker):\n    assert not odradek_fresh_broker.warm")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["odradek: each broker was started as a program of its own: *no room*"])


def test_a_template_that_has_threads_refuses(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    program += TELLS_WHAT_IS_LOADED_LATER.format(root=str(Path(location.__file__).parents[1]))
    command = location.command

    def with_a_thread(arguments: list[str], python: Any = None) -> list[str]:
        return (
            [sys.executable, "-I", "-c", program, *arguments]
            if arguments[0] == "template"
            else command(arguments, python)
        )

    monkeypatch.setattr(location, "command", with_a_thread)
    with Broker() as broker:
        assert not broker.warm
    assert warm.why_plain == "the process has 2 threads"


def test_the_option_keeps_starts_plain(pytester: pytest.Pytester) -> None:
    run_plugin(
        pytester, "def test_fresh(odradek_fresh_broker):\n    assert not odradek_fresh_broker.warm", "--odradek-cold"
    ).assert_outcomes(passed=1)


def test_variables_that_count_when_a_process_begins_need_another_template(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker():
        first = warm.template
        monkeypatch.setenv("ANY_OTHER", "1")
        with Broker():
            assert warm.template is first
        monkeypatch.setenv("LC_ALL", "C")
        with Broker() as broker:
            assert broker.warm and warm.template is not first
    assert first is not None
    assert ends(first.pid)


def test_serve_of_several_brokers_says_why_it_does_not_fork(tmp_path: Path) -> None:
    root = str(Path(location.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); from broker import forked\n"
    program += "forked.why_unsafe = lambda: 'not today'\nfrom broker.program import main\nmain(prog_name='odradek')"
    settings = ["--set", f"log.dirs={tmp_path / 'data'}", "--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    settings += ["--set", "odradek.http.port=-1", "--ready-file", str(tmp_path / "ready")]
    command = [sys.executable, "-c", program, "serve", "--profile", "test", "--brokers", "2", *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
        assert served.stdout is not None
        lines: list[str] = []
        with contextlib.suppress(StopIteration):
            while sum("node serves" in line for line in lines) < 3:
                lines.append(next(served.stdout))
        served.terminate()
        served.communicate(timeout=60)
    assert "no fork is possible" in lines[0] and "not today" in lines[0], lines
    assert served.returncode == 0, lines
