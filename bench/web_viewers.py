"""Viewers of the web page for ./bench.sh web: each reads what a page reads, and draws nothing."""

from __future__ import annotations

import http.client
import re
import threading
import time
from pathlib import Path

ASKED_AT_FIRST = ("run", "peers", "series", "rounds", "flows", "events")
TIMEOUT_S = 20.0


class Viewers:
    """Threads that keep streams open to the peer in `folder` until close()."""

    def __init__(self, folder: Path, count: int) -> None:
        self.received = 0  # bytes of all streams
        self._folder = folder
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._look, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def _address(self) -> re.Match | None:
        try:
            text = (self._folder / "web").read_text(encoding="utf-8")
        except OSError:
            return None
        return re.fullmatch(r"http://([\w.]+):(\d+)/\?token=(\w+)\s*", text)

    def _look(self) -> None:
        while not self._closing.is_set():
            address = self._address()
            try:
                if address:
                    self._read(address[1], int(address[2]), address[3])
            except (OSError, http.client.HTTPException):
                pass  # the peer is not there yet, stopped for its rival's turn, or at its end
            time.sleep(0.05)

    def _read(self, host: str, port: int, token: str) -> None:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        try:
            for name in ASKED_AT_FIRST:
                connection.request("GET", f"/api/{name}?token={token}")
                connection.getresponse().read()
            connection.request("GET", f"/api/stream?token={token}")
            stream = connection.getresponse()
            while not self._closing.is_set() and (got := stream.read1(65536)):
                self.received += len(got)
        finally:
            connection.close()
