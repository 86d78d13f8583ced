"""A process of `dedloc serve-api`, and requests to it."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from pathlib import Path

import harness

JSON = {"Content-Type": "application/json"}


class Served:
    """A process of `dedloc serve-api`, or of another command that looks at a model."""

    def __init__(self, folder: Path, model: str, *more: str, name: str = "served",
                 command: str = "serve-api") -> None:
        self.directory = folder / name
        self.out, self.err = (folder / f"{name}.{end}" for end in ("out", "err"))
        port = ["--port", "0"] if command == "serve-api" else []
        words = [harness.DEDLOC, command, model, *port, "--threads", "1", "--json", *more]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True)

    stop_for_good = harness.Peer.stop_for_good
    signal = harness.Peer.signal
    end = harness.Peer.end
    errors = harness.Peer.errors
    last_words = harness.Peer.last_words

    def where(self, seconds: float = 100) -> dict:
        """Waits until the process serves; returns what it says of itself."""
        deadline = time.monotonic() + seconds
        while not harness.whole_lines(self.out):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"it serves nothing: {self.errors()}")
            time.sleep(0.05)
        return self.last_words()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.where()["port"], timeout=60)

    def ask(self, method: str, path: str, body: object = None,
            headers: dict | None = None) -> tuple[int, dict, str]:
        """Status, headers and body of an answer."""
        connection = self.connection()
        try:
            text = json.dumps(body) if body is not None and not isinstance(body, str) else body
            connection.request(method, path, text, {**JSON, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def post(self, path: str, **body: object) -> tuple[int, dict]:
        status, _, text = self.ask("POST", path, body)
        return status, json.loads(text)

    def model(self) -> dict:
        return json.loads(self.ask("GET", "/v1/models")[2])["data"][0]


def events_of(text: str) -> list[dict]:
    """Parses a stream that came to its end."""
    assert text.endswith("data: [DONE]\n\n"), text
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n")[:-2]]


def listening_addresses(port: int) -> set[str]:
    """Local addresses of IPv4 and IPv6 with a listener at this port, as the kernel writes them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            for line in list(lines)[1:]:
                local, state = line.split()[1], line.split()[3]
                address, of = local.rsplit(":", 1)
                if state == "0A" and int(of, 16) == port:
                    found.add(address)
    return found
