"""The partners: how each is fetched into the build folder, and how a peer of it is started.

Everything that is downloaded or built lies under BUILD/<partner>; a stamp of what it was made from
says whether that has to be done again. Unavailable: a tool is missing, or a registry is out of
reach; then the partner's cases are skipped."""

import hashlib
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOWNLOAD_SECONDS_MAX = 400
START_SECONDS_MAX = 40
REQUEST_SECONDS_MAX = 150


class Unavailable(Exception):
    pass


class Failed(Exception):
    """A case found something wrong."""


def tool(name, why):
    found = shutil.which(name)
    if not found:
        raise Unavailable(f"{name} is not installed ({why})")
    return found


def output_of(command, seconds=120, **how):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, **how)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)}: no end after {seconds} s")


class Partner:
    name = ""
    sources = ()  # what the stamp covers, relative to this folder

    def __init__(self, build):
        self.home = Path(build) / self.name

    def prepare(self):
        self.check_tools()
        wanted = hashlib.sha256(
            b"".join((HERE / source).read_bytes() for source in self.sources)
        ).hexdigest()
        stamp = self.home / "stamp"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        self.home.mkdir(parents=True, exist_ok=True)
        self.fetch()
        stamp.write_text(wanted)

    def check_tools(self):
        raise NotImplementedError

    def fetch(self):
        raise NotImplementedError

    def download(self, command, what, seconds=DOWNLOAD_SECONDS_MAX, **how):
        """A command that needs a registry: whatever goes wrong, the partner cannot be had."""
        log = self.home / "download.log"
        try:
            with open(log, "ab") as out:
                done = subprocess.run(command, stdout=out, stderr=out, timeout=seconds, **how)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{what}: no end after {seconds} s ({log})")
        if done.returncode != 0:
            raise Unavailable(f"{what} failed; is its registry in reach? ({log})")


class Js(Partner):
    name = "js"
    relay_limits = ("none", "default")
    sources = ("js/package.json", "js/package-lock.json")
    keys = ("rsa", "secp256k1")  # its peer ids know no ECDSA

    def check_tools(self):
        node = tool("node", "Debian: nodejs")
        tool("npm", "Debian: npm")
        version = output_of([node, "--version"]).stdout.strip()
        if int(version.lstrip("v").split(".")[0]) < 20:
            raise Unavailable(f"node {version} is too old; js-libp2p needs 20")

    def fetch(self):
        for source in self.sources:
            shutil.copy(HERE / source, self.home)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        command += ["--fetch-retries=0", "--fetch-timeout=20000"]
        cache = self.home / "cache"
        self.download([*command, "--cache", str(cache)], "npm ci", cwd=self.home)

    def start(self, logs, security="", key="ed25519", **relaying):
        shutil.copy(HERE / "js/peer.js", self.home)  # beside node_modules, where it finds them
        command = ["node", "peer.js", "--security", security, "--key", key]
        command += relay_arguments("--", **relaying)
        return Peer("js", command, logs, cwd=self.home)


class Go(Partner):
    name = "go"
    relay_limits = ("none", "default")
    sources = ("go/main.go", "go/go.mod", "go/go.sum")
    keys = ("rsa", "ecdsa", "secp256k1")

    def check_tools(self):
        go = tool("go", "https://go.dev/dl")
        wanted = next(
            line.split()[1]
            for line in (HERE / "go/go.mod").read_text().splitlines()
            if line.startswith("go ")
        )
        version = output_of([go, "env", "GOVERSION"]).stdout.strip().removeprefix("go")
        number = lambda text: [int(part) for part in text.split("-")[0].split(".")]
        if number(version) < number(wanted):
            raise Unavailable(f"go {version} is too old; go-libp2p needs {wanted}")

    def fetch(self):
        environment = {
            **os.environ,
            "GOMODCACHE": str(self.home / "modules"),
            "GOCACHE": str(self.home / "cache"),
            "GOFLAGS": "-modcacherw -buildvcs=false",
            "GOTOOLCHAIN": "local",
        }
        how = {"cwd": HERE / "go", "env": environment}
        # One small module first: without a registry, Go would try all of them for minutes.
        first = ["go", "mod", "download", "github.com/multiformats/go-base32"]
        self.download(first, "go mod download", 60, **how)
        self.download(["go", "mod", "download"], "go mod download", **how)
        command = ["go", "build", "-o", str(self.home / "peer"), "."]
        built = subprocess.run(command, capture_output=True, text=True, **how)
        if built.returncode != 0:
            raise Failed(f"go build: {built.stderr[-2000:]}")

    def start(self, logs, security="", key="ed25519", **relaying):
        command = [str(self.home / "peer"), "-security", security, "-key", key]
        command += relay_arguments("-", **relaying)
        return Peer("go", command, logs)


class Hivemind(Partner):
    name = "hivemind"
    relay_limits = ("default",)  # the daemon's relay service comes with no others
    sources = ("python/requirements.txt",)
    python = "/usr/bin/python3"

    def check_tools(self):
        if not Path(self.python).exists():
            raise Unavailable(f"{self.python} is not there (Debian: python3)")
        for module in ("torch", "ensurepip"):
            look = f"import importlib.util as u; assert u.find_spec('{module}')"
            if output_of([self.python, "-c", look]).returncode != 0:
                raise Unavailable(f"{module} is not there (Debian: python3-torch, python3-venv)")

    def fetch(self):
        venv = self.home / "venv"
        command = [self.python, "-m", "venv", "--system-site-packages", str(venv)]
        made = output_of(command, DOWNLOAD_SECONDS_MAX)
        if made.returncode != 0:
            raise Unavailable(f"python3 -m venv: {made.stderr[-500:]}")
        pip = [str(venv / "bin/pip"), "install", "--quiet", "--retries", "0", "--timeout", "30"]
        pip += ["--cache-dir", str(self.home / "cache")]
        requirements = str(HERE / "python/requirements.txt")
        self.download([*pip, "--no-deps", "hivemind==1.1.12"], "pip install hivemind")
        self.download([*pip, "-r", requirements], "pip install -r requirements.txt")

    def start(self, logs, identity=None, **relaying):
        command = [str(self.home / "venv/bin/python"), str(HERE / "python/peer.py")]
        command += ["--identity", str(identity)] if identity else []
        command += relay_arguments("--", **relaying)
        quiet = {**os.environ, "HIVEMIND_LOGLEVEL": "ERROR", "HIVEMIND_COLORS": "False"}
        return Peer("hivemind", command, logs, env=quiet)

    def start_moe(self, logs, bootstrap):
        """hivemind.DHT with experts; it joins the table at that address."""
        command = [str(self.home / "venv/bin/python"), str(HERE / "python/moe_peer.py")]
        quiet = {**os.environ, "HIVEMIND_LOGLEVEL": "ERROR", "HIVEMIND_COLORS": "False"}
        return Peer("moe", [*command, "--bootstrap", bootstrap], logs, env=quiet)


def relay_arguments(dashes, relay="", hidden=False, reserve=""):
    """Options of a partner. relay: the limits with which it serves as one, "none" or "default";
    hidden: it listens nowhere; reserve: nor here, but it is reached over the relay at this address.
    """
    arguments = [f"{dashes}relay", relay] if relay else []
    arguments += [f"{dashes}hidden"] if hidden else []
    return arguments + ([f"{dashes}reserve", reserve] if reserve else [])


def start_dedloc(logs, security=(), late_muxer=False, relay_bytes=None, hidden=False):
    """relay_bytes: it serves as a relay whose circuits carry so many each way (0: no limit);
    hidden: nobody can dial it."""
    command = [os.environ["DEDLOC_PEER"]]
    for protocol in security:
        command += ["--security", {"tls": "/tls/1.0.0", "noise": "/noise"}[protocol]]
    command += ["--late-muxer"] if late_muxer else []
    command += [] if relay_bytes is None else ["--relay", "--relay-bytes", str(relay_bytes)]
    command += ["--hidden"] if hidden else []
    return Peer("dedloc", command, logs)


class Peer:
    """A process that answers requests, one a line."""

    numbers = itertools.count(1)

    def __init__(self, kind, command, logs, **how):
        self.name = f"{kind}-{next(Peer.numbers)}"
        self.log = Path(logs) / f"{self.name}.log"
        self.answers = queue.Queue()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # so that it dies with its children (p2pd)
                **how,
            )
        threading.Thread(target=self.read, daemon=True).start()
        first = self.next(START_SECONDS_MAX, "its first line")
        self.id = first["id"]
        self.address = f"{first['addresses'][0]}/p2p/{self.id}" if first["addresses"] else None

    def read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def next(self, seconds, what):
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Failed(f"{self.name}: no answer to {what} after {seconds} s ({self.log})")
            if line is None:
                tail = self.log.read_text(errors="replace")[-600:].strip()
                raise Failed(f"{self.name} has ended before {what}: {tail}")
            try:
                answer = json.loads(line)
            except ValueError:
                continue  # a word of a library
            if isinstance(answer, dict):
                return answer

    def ask(self, do, **arguments):
        """The answer, or Failed."""
        answer = self.exchange(do, arguments)
        if not answer.get("ok"):
            raise Failed(f"{self.name}, {do}: {answer.get('error')}")
        return answer

    def ask_for_error(self, do, **arguments):
        """Returns what is wrong, where something must be."""
        answer = self.exchange(do, arguments)
        if answer.get("ok"):
            raise Failed(f"{self.name}, {do}: it did what it should refuse")
        return answer["error"]

    def exchange(self, do, arguments):
        line = json.dumps({"do": do, **arguments}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.name} is gone: {error}")
        return self.next(REQUEST_SECONDS_MAX, f"\"{do}\"")

    def kill(self):
        """Dies at once, with all its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()  # what is left of its group, too


PARTNERS = {partner.name: partner for partner in (Js, Go, Hivemind)}
