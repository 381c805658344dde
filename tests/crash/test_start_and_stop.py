"""Starting and stopping as processes: exit status, the clean-shutdown file, the lock, the death of the parent."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker, BrokerStartError
from tests.client.raw import RawConnection, fetch
from tests.crash.reading import read_partition
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("own_cluster")


def fill(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def gone(pid: int) -> bool:
    """Whether the process has ended; also true for a zombie, which nobody may be left to reap."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_sigterm_exits_0_and_leaves_the_clean_shutdown_file() -> None:
    with Broker() as broker:
        fill(broker, "t", 1000)
        mark = broker.data_dir / ".kafka_cleanshutdown"
        assert not mark.exists()
        assert broker.stop() == 0
        assert mark.exists()
        broker.start()
        assert not mark.exists(), "a running broker is not cleanly shut down"
        assert list(read_partition(broker.bootstrap_servers, "t", 0).values()) == [b"%d" % n for n in range(1000)]


def test_sigterm_with_idle_clients_and_a_waiting_fetch_exits_0() -> None:
    with Broker() as broker:
        fill(broker, "t", 1)
        idle = [RawConnection(broker.bootstrap_servers) for _ in range(20)]
        waiting = RawConnection(broker.bootstrap_servers)
        request = bytearray(fetch("t", 1, 1 << 20))
        # max.wait of a minute and min.bytes of 1 MB, after the size, the header with its client id, and the replica id.
        at = 4 + 10 + len("raw") + 4
        request[at : at + 8] = (60_000).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big")
        waiting.send(bytes(request))
        assert broker.stop() == 0
        for connection in (*idle, waiting):
            assert connection.is_closed_by_broker()


def test_second_broker_on_a_folder_refuses_and_names_it(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as first:
        fill(first, "t", 10)
        with pytest.raises(BrokerStartError, match=r"(?is)lock") as refused:
            Broker(data_dir=tmp_path).start()
        assert str(tmp_path) in str(refused.value)
        assert len(read_partition(first.bootstrap_servers, "t", 0)) == 10


def test_a_broker_whose_http_port_is_taken_never_says_that_it_started() -> None:
    """Scripts and Testcontainers wait for the line that says so."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = Broker({"odradek.http.port": port})
        with pytest.raises(BrokerStartError, match=f"odradek.http.port = {port} cannot be opened") as refused:
            broker.start()
    assert "like_kafka" not in str(refused.value)


def test_a_line_for_people_says_the_version_and_where_all_is() -> None:
    with Broker({"odradek.http.port": 0}) as broker:
        (line,) = [line for line in broker.log().splitlines() if "Odradek " in line]
        assert f"kafka://{broker.bootstrap_servers}  data {broker.data_dir}" in line
        assert f"http://127.0.0.1:{broker.http_port}" in line


def test_folder_is_free_again_after_kill_9(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as first:
        fill(first, "t", 10)
        first.kill()
        with Broker(data_dir=tmp_path) as second:
            assert len(read_partition(second.bootstrap_servers, "t", 0)) == 10


def test_port_in_use_stops_the_start_and_names_it() -> None:
    with Broker() as first:
        with pytest.raises(BrokerStartError) as refused:
            Broker({"listeners": f"PLAINTEXT://{first.bootstrap_servers}"}).start()
        assert first.bootstrap_servers.rpartition(":")[2] in str(refused.value)


def test_wrong_value_stops_the_start_with_key_value_and_what_was_expected() -> None:
    with pytest.raises(BrokerStartError) as refused:
        Broker({"log.segment.bytes": "a lot"}).start()
    assert "log.segment.bytes" in str(refused.value)
    assert "a lot" in str(refused.value)


def test_broker_ends_when_its_parent_is_killed() -> None:
    program = "import sys, time, odradek; b = odradek.Broker().start(); print(b.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        broker_pid = int(parent.stdout.readline())
        assert not gone(broker_pid)
        parent.kill()
    wait_until(lambda: gone(broker_pid), "the broker outlived its parent")


@contextmanager
def console_broker(
    folder: Path, log: str | Path = os.devnull, loop: str = "auto"
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A broker by the console script, and its address; its log goes nowhere, unless to the file `log`."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-I", "-m", "odradek", "serve", "--ready-fd", str(write_end)]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={folder}"]
    command += ["--set", "odradek.http.port=-1", "--set", f"odradek.loop={loop}"]
    with open(log, "wb") as lines, subprocess.Popen(command, pass_fds=(write_end,), stderr=lines) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            line = json.loads(ready.readline())
        assert line["ready"] is True
        try:
            yield process, line["listeners"]["PLAINTEXT"]
        except BaseException:
            process.kill()
            raise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_console_script_becomes_the_broker_and_stops_on_signals(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored under nohup, and so in a broker started there
    try:
        with console_broker(tmp_path) as (process, _):
            process.send_signal(number)
            assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_broker_that_ignores_sighup_goes_on(tmp_path: Path) -> None:
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with console_broker(tmp_path) as (process, address):
            process.send_signal(signal.SIGHUP)
            RawConnection(address).ask()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_exit_with_parent_without_a_pipe_as_standard_input_only_minds_the_process(tmp_path: Path, loop: str) -> None:
    read_end, write_end = os.pipe()
    command = f"{sys.executable} -I -m odradek serve --exit-with-parent --ready-fd {write_end}"
    command += f" --set odradek.loop={loop} --set listeners=PLAINTEXT://127.0.0.1:0 --set log.dirs={tmp_path}"
    command += " --set odradek.http.port=-1"
    script = f"{command} & wait"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, pass_fds=(write_end,)) as parent:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            pid = json.loads(ready.readline())["pid"]
        assert not gone(pid)
        parent.kill()
    wait_until(lambda: gone(pid), "the broker outlived its parent")


def test_a_ready_descriptor_that_is_not_open_is_told_before_anything_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "odradek", "serve", "--ready-fd", "99", "--set", f"log.dirs={tmp_path}"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 2
    assert "descriptor 99 is not open" in ended.stderr
    assert not any(tmp_path.iterdir())


def test_a_broker_that_was_started_without_standard_descriptors_serves_and_stops_cleanly(tmp_path: Path) -> None:
    """Else a segment would have the number to which log lines go."""
    read_end, write_end = os.pipe()
    serve = f"{sys.executable} -I -m odradek serve --ready-fd {write_end}"
    settings = f"--set listeners=PLAINTEXT://127.0.0.1:0 --set log.dirs={tmp_path} --set odradek.http.port=-1"
    with subprocess.Popen(["sh", "-c", f"exec {serve} {settings} <&- >&- 2>&-"], pass_fds=(write_end,)) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as ready:
            assert json.loads(ready.readline())["ready"] is True
        for number in range(3):
            assert os.readlink(f"/proc/{process.pid}/fd/{number}") == os.devnull
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_the_ready_line_may_go_to_standard_error_which_stays_open(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-m", "odradek", "serve", "--ready-fd", "2", "--set", "odradek.http.port=-1"]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={tmp_path}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "ready" not in (line := json.loads(process.stderr.readline())):
            pass
        process.send_signal(signal.SIGTERM)
        assert '"event": "stopped"' in process.stderr.read()
    assert line["ready"] is True


def test_a_broker_whose_log_lines_find_no_room_serves_and_stops_cleanly(tmp_path: Path) -> None:
    with console_broker(tmp_path, "/dev/full") as (process, address):
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("t", 1)])["t"].result(PATIENCE_SECONDS)
        Producer({"bootstrap.servers": address, "transactional.id": "t"}).init_transactions(PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_more_connections_than_descriptors_leave_the_broker_and_its_log_in_peace(tmp_path: Path, loop: str) -> None:
    log = tmp_path / "log"
    with console_broker(tmp_path / "data", log, loop) as (process, address):
        first = RawConnection(address)
        first.ask()
        has = len(os.listdir(f"/proc/{process.pid}/fd"))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (has + 20, has + 20))
        others = [RawConnection(address) for _ in range(100)]
        for number in range(200):
            first.ask(number)
        for one in others:
            one.socket.close()
        wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= has, "the connections are still open")
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("t", 1)])["t"].result(PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    lines = log.read_text().splitlines()
    assert len(lines) < 20 + PATIENCE_SECONDS
    assert not any("Traceback" in line for line in lines)


def test_broker_ends_with_status_1_when_its_metadata_cannot_be_written(tmp_path: Path) -> None:
    with console_broker(tmp_path) as (process, address):
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("before", 1)])["before"].result(PATIENCE_SECONDS)
        largest = (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, largest))
        with pytest.raises(KafkaException):
            admin.create_topics([NewTopic("after", 1)])["after"].result(PATIENCE_SECONDS)
        assert process.wait(PATIENCE_SECONDS) == 1
    with Broker(data_dir=tmp_path) as again:
        names = AdminClient({"bootstrap.servers": again.bootstrap_servers}).list_topics(timeout=PATIENCE_SECONDS).topics
        assert set(names) == {"before"}


def test_recovery_after_a_kill_is_one_line_with_counts() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("empty", 50, 1)])["empty"].result(30)
        fill(broker, "t", 100)
        broker.kill()
        before = len(broker.log().splitlines())
        broker.start()
        lines = broker.log().splitlines()[before:]
        (loaded,) = [line for line in lines if "logs loaded" in line]
        told = json.loads(loaded)
        assert (told["partitions"], told["segments_recovered"], told["clean"]) == (51, 51, False)
        assert "took_ms" in told
        assert len(lines) < 15, "\n".join(lines)


def test_overwritten_bytes_of_a_log_are_an_event_of_their_own_and_no_bug() -> None:
    with Broker({"odradek.http.port": "0"}) as broker:
        fill(broker, "t", 1)
        fill(broker, "kept", 1)
        broker.stop()
        path = broker.data_dir / "t-0" / "00000000000000000000.log"
        content = bytearray(path.read_bytes())
        content[8:12] = b"\xff\xff\xff\xff"  # the length of the batch
        path.write_bytes(content)
        broker.start()
        (line,) = [line for line in broker.log().splitlines() if "damaged data" in line]
        told = json.loads(line)
        assert told["path"] == str(path.parent)
        assert "odradek log repair" in told["advice"]
        assert "the partition is offline" in told["done"]
        assert "Traceback" not in broker.log()
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/metrics", timeout=10) as answer:
            assert "odradek_unhandled_exceptions_total 0.0" in answer.read().decode()
        fill(broker, "kept", 1)
