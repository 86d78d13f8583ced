"""Between browser and peer, on this machine's loopback: a line that can be cut, and a server that
puts the page's files of the source tree in place of those that are compiled in.

    tests/web/relay.py http://127.0.0.1:8470/?token=…     prints an address: edit the page, reload
"""

from __future__ import annotations

import http.client
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PAGE = Path(__file__).resolve().parents[2] / "src/dedloc/web/page"
FOLDERS = (PAGE, PAGE / "shared")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
BYTES = 65536


class Line:
    """Carries bytes to `address` and back until it is cut."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.to = (host, int(port))
        self.is_cut = False
        self.ends: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self.lock:
            self.is_cut = True
            ends, self.ends = self.ends, set()
        for end in ends:
            _shut(end)

    def mend(self) -> None:
        with self.lock:
            self.is_cut = False

    def close(self) -> None:
        self.cut()
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self.to, timeout=10)
        except OSError:
            _shut(near)
            return
        far.settimeout(None)
        with self.lock:
            is_cut = self.is_cut
            if not is_cut:
                self.ends |= {near, far}
        if is_cut:
            _shut(near)
            _shut(far)
            return
        threading.Thread(target=_pump, args=(near, far), daemon=True).start()
        _pump(far, near)
        with self.lock:
            self.ends -= {near, far}


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(BYTES):
            sink.sendall(data)
    except OSError:
        pass
    _shut(source)
    _shut(sink)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


class _SourcePage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    to = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:  # noqa: N802: http.server's name
        path = urlsplit(self.path).path
        name = path.lstrip("/") or "index.html"
        for file in (folder / name for folder in FOLDERS):
            if file.parent in FOLDERS and file.is_file():
                self._send_file(file)
                return
        self._pass_on()

    def do_POST(self) -> None:  # noqa: N802
        self._pass_on()

    def _send_file(self, file: Path) -> None:
        body = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[file.suffix])
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _pass_on(self) -> None:
        connection = http.client.HTTPConnection(self.to, timeout=60)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        try:
            connection.request(self.command, self.path, body or None, dict(self.headers))
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Encoding", "Content-Security-Policy",
                         "Cache-Control"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := answer.read1(BYTES):
                self.wfile.write(data)
                self.wfile.flush()
        except OSError:
            pass
        finally:
            connection.close()


def source_page(address: str) -> str:
    """Serves the source tree's page in front of `address`; answers its own."""
    handler = type("SourcePage", (_SourcePage,), {"to": address})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    given = urlsplit(sys.argv[1])
    print(f"http://{source_page(given.netloc)}/?{given.query}", flush=True)
    threading.Event().wait()
