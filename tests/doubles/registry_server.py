"""A server that answers as a schema registry is told to, by path, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Stub(ThreadingHTTPServer):
    """Answers as `answers` say: a path to status and body; `asked` has what came, each with its user and body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str | None, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.path, self.headers["Authorization"], json.loads(content) if content else None))
        status, body = self.server.answers.get(self.path, (404, {"error_code": 40403, "message": "not here"}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def stub_registry() -> Iterator[Stub]:
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
