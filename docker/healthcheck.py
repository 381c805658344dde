"""The container's health check: exit status 0 when the broker answers 200 on /healthz."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

# Either name sets odradek.http.port; the image sets the second, and the first wins.
PORT = os.environ.get("ODRADEK_HTTP_PORT") or os.environ.get("KAFKA_ODRADEK_HTTP_PORT", "9404")

try:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=4) as answer:
        sys.exit(0 if answer.status == 200 else 1)
except (urllib.error.URLError, OSError) as error:
    sys.exit(f"no answer from /healthz on port {PORT}: {error}")
