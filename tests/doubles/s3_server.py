"""A server that speaks as much of S3's protocol as a client of objects needs: objects in memory, one bucket.

PUT, GET with ranges, DELETE of one and of many, listing (version 2, with delimiters), uploads in parts. Signatures are
not looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import escape

from aiohttp import web

_KEY = re.compile(r"<Key>(.*?)</Key>")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class S3Server:
    """One bucket.

    Attributes:
        objects: contents by key.
        failing: every request is answered with 503.
        ranges: the ranges that were asked for.
    """

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.failing = False
        self.ranges: list[str] = []
        self._parts: dict[str, dict[int, bytes]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        _, bucket, *rest = request.path.split("/", 2)
        key = rest[0] if rest else ""
        if self.failing:
            return web.Response(status=503, text=_error("SlowDown"))
        if bucket != self.bucket:
            return web.Response(status=404, text=_error("NoSuchBucket"))
        match request.method:
            case "PUT":
                return await self._put(request, key)
            case "POST":
                return await self._post(request, key)
            case "DELETE":
                self.objects.pop(key, None)
                return web.Response(status=204)
            case _ if not key:
                return self._list(request)
        return self._get(request, key)

    async def _put(self, request: web.Request, key: str) -> web.Response:
        body = await request.read()
        upload = request.query.get("uploadId")
        if upload is not None:
            self._parts[upload][int(request.query["partNumber"])] = body
        else:
            self.objects[key] = body
        return web.Response(headers={"ETag": _etag(body)})

    async def _post(self, request: web.Request, key: str) -> web.Response:
        if "uploads" in request.query:
            upload = f"upload-{len(self._parts)}"
            self._parts[upload] = {}
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        if "uploadId" in request.query:
            parts = self._parts.pop(request.query["uploadId"])
            self.objects[key] = b"".join(parts[number] for number in sorted(parts))
            return _xml(
                f"<CompleteMultipartUploadResult><ETag>{_etag(self.objects[key])}</ETag></CompleteMultipartUploadResult>"
            )
        names = _KEY.findall(await request.text())
        for name in names:
            self.objects.pop(name, None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        return _xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _list(self, request: web.Request) -> web.Response:
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter")
        keys = [key for key in sorted(self.objects) if key.startswith(prefix)]
        folders: dict[str, None] = {}
        if delimiter:
            inside = {key: key[len(prefix) :].partition(delimiter) for key in keys}
            folders = dict.fromkeys(prefix + first + delimiter for first, found, _ in inside.values() if found)
            keys = [key for key, (_, found, _) in inside.items() if not found]
        common = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>{_etag(body)}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, body in ((key, self.objects[key]) for key in keys)
        )
        return _xml(f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}{common}</ListBucketResult>")

    def _get(self, request: web.Request, key: str) -> web.Response:
        body = self.objects.get(key)
        if body is None:
            return web.Response(status=404, text=_error("NoSuchKey"))
        headers = {"ETag": _etag(body), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        asked = _RANGE.fullmatch(request.headers.get("Range", ""))
        if asked is None:
            return web.Response(body=body, headers=headers)
        self.ranges.append(request.headers["Range"])
        start, end = int(asked[1]), min(int(asked[2] or len(body) - 1), len(body) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
        return web.Response(status=206, body=body[start : end + 1], headers=headers)


def _etag(body: bytes) -> str:
    return '"' + hashlib.md5(body, usedforsecurity=False).hexdigest() + '"'


def _xml(text: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0" encoding="UTF-8"?>{text}', content_type="application/xml")


def _error(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"


@contextmanager
def s3_server(bucket: str = "archive", kind: type[S3Server] = S3Server) -> Iterator[tuple[S3Server, str]]:
    """The server, in a thread of its own, and its address."""
    server, loop = kind(bucket), asyncio.new_event_loop()

    async def begin() -> tuple[web.AppRunner, int]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", server.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, runner.addresses[0][1]

    runner, port = loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
