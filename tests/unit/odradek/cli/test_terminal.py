"""What others have written does nothing to a terminal: escape sequences, C1 controls, bidi, carriage returns."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from odradek.terminal import printable, visible
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.command_line import on_a_terminal
from tests.unit.storage.support import Rig, append, batch

HOSTILE = "\x1b]52;c;cm0=\x07a\rb\x9b31m\u202eoN\u2066\u200b\U000e0041"
SHOWN = r"\x1b]52;c;cm0=\x07a\rb\x9b31m\u202eoN\u2066\u200b\U000e0041"


def test_text_keeps_its_lines_and_words_and_a_name_is_one_line() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible("a\tb\n注文 é\u00a0👩\u200d👧 \ue0b0") == "a\tb\n注文 é\u00a0👩\u200d👧 \ue0b0"
    assert printable("a\tb\nc\u200d\u00a0") == r"a\tb\nc\u200d\xa0"
    assert all(visible(chr(code)) != chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10))


def test_arguments_in_errors_are_escaped_on_a_terminal() -> None:
    for words in (("explain", "error"), ("log", "dump"), ("topics",)):
        told = on_a_terminal(*words, HOSTILE).decode()
        assert r"\x1b]52" in told, told
        assert visible(told) == told


def test_what_a_control_interface_says_is_escaped_on_a_terminal() -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            finding = {"severity": "info", "rule": "r", "text": HOSTILE, "advice": HOSTILE}
            body = json.dumps({"subject": "group", "name": HOSTILE, "findings": [finding]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request).start()
        told = on_a_terminal("explain", "group", "g", "--control", f"127.0.0.1:{server.server_port}").decode()
    assert told == f"group {SHOWN}\n   {SHOWN}\n   -> {SHOWN}\n"


def test_the_brokers_tools_are_escaped_on_a_terminal_and_exact_in_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE
    rig = Rig(OsFileSystem(), LogConfig(), root=str(folder))
    append(rig.log("t"), batch(b"v"))
    rig.manager.close()
    dump = ("log", "dump", str(folder / "t-0"))
    told = on_a_terminal(*dump).decode()
    assert SHOWN in told and visible(told) == told
    piped = subprocess.run([sys.executable, "-m", "odradek", *dump], capture_output=True, check=True, timeout=60)
    assert HOSTILE.encode() in piped.stdout
    assert "\x1b[?25l" in on_a_terminal("log", "verify", str(folder / "t-0")).decode()  # our own progress is no text
