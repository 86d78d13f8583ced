"""Machines behind routers, as network namespaces: for the tests of this folder.

A Network makes namespaces with names of this process, records them, and removes exactly those.
Nothing touches the root namespace; nothing inside can leave.

    with Network() as net:
        net.public("host", "203.0.113.10")
        net.home("a", router="203.0.113.2", kind="port-restricted")   # a machine behind a router
        subprocess.Popen(net.command("a", ["dedloc", "join", string]))
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

_numbers = itertools.count(1)

# A router drops what it did not ask for; a symmetric one takes a new port for every destination.
# The three empty chains are miniupnpd's, where there is one.
_RULES = """
table inet filter {{
  chain miniupnpd {{ }}
  chain prerouting_miniupnpd {{ }}
  chain postrouting_miniupnpd {{ }}
  chain prerouting {{ type nat hook prerouting priority dstnat; policy accept;
    jump prerouting_miniupnpd
  }}
  chain postrouting {{ type nat hook postrouting priority srcnat; policy accept;
    jump postrouting_miniupnpd
    oifname "wan0" masquerade {masquerade}
  }}
  chain input {{ type filter hook input priority filter; policy accept;
    iifname "wan0" ct state established,related accept
    iifname "wan0" drop
  }}
  chain forward {{ type filter hook forward priority filter; policy accept;
    ct state established,related accept
    jump miniupnpd
    iifname "wan0" drop
  }}
}}
"""

# The daemon of many home routers. It opens ports only for the machine that asks.
_MINIUPNPD = "/usr/sbin/miniupnpd"
_DAEMON = """ext_ifname=wan0
listening_ip=lan0
http_port=0
enable_natpmp={nat_pmp}
enable_upnp={upnp}
secure_mode=yes
ipv6_disable=yes
system_uptime=no
uuid=00000000-0000-0000-0000-000000000001
lease_file={folder}/leases
allow 1024-65535 192.168.0.0/16 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
"""


def why_not() -> str:
    """Why there can be no such network here; empty: there can. What else goes wrong in a machine
    that may have namespaces is no reason to skip a test."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nft"):
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            return f"wants the Debian packages iproute2 and nftables: no {program} here"
    name = f"dt{os.getpid()}-{next(_numbers)}-try"
    try:
        _run(["ip", "netns", "add", name])
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here: {error.stderr.strip()}"
    _run(["ip", "netns", "del", name])
    return ""


def why_no_daemon() -> str:
    """Why no router here can open ports; empty: one can."""
    if not os.access(_MINIUPNPD, os.X_OK):
        return "wants the Debian packages miniupnpd and miniupnpd-nftables"
    return ""


def _run(command: list[str], text: str | None = None) -> None:
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    subprocess.run(command, input=text, check=True, capture_output=True, text=True, timeout=30,
                   env=environment)


class Network:
    def __init__(self) -> None:
        self._stem = f"dt{os.getpid()}-{next(_numbers)}-"
        self._made: list[str] = []
        self._homes = 0

    def __enter__(self) -> "Network":
        try:
            self._namespace("inet")
            self._ip("inet", "link", "add", "br0", "type", "bridge")
            self._ip("inet", "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._made:
            subprocess.run(["/usr/sbin/ip", "netns", "del", self._made.pop()], check=False,
                           capture_output=True)

    def public(self, name: str, address: str) -> None:
        self._namespace(name)
        self._plug_in(name, address)

    def home(self, name: str, router: str, kind: str) -> None:
        """The machine `name` behind a router with that public address."""
        self._homes += 1
        box, lan = name + "-nat", f"192.168.{self._homes}"
        self._namespace(box)
        self._plug_in(box, router)
        self._namespace(name)
        _run(["ip", "link", "add", "lan0", "netns", self._full(box), "type", "veth", "peer", "name",
              "eth0", "netns", self._full(name)])
        self._ip(box, "addr", "add", f"{lan}.1/24", "dev", "lan0")
        self._ip(box, "link", "set", "lan0", "up")
        self._ip(name, "addr", "add", f"{lan}.2/24", "dev", "eth0")
        self._ip(name, "link", "set", "eth0", "up")
        self._ip(name, "route", "add", "default", "via", f"{lan}.1")
        self._in(box, ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        masquerade = {"port-restricted": "", "symmetric": "fully-random"}[kind]
        self._in(box, ["nft", "-f", "-"], _RULES.format(masquerade=masquerade))

    def opens_ports(self, name: str, folder: Path, nat_pmp: bool, upnp: bool) -> subprocess.Popen:
        """Makes the router of `name` one that opens ports when asked; returns its daemon."""
        config = folder / f"{name}-miniupnpd.conf"
        config.write_text(_DAEMON.format(nat_pmp="yes" if nat_pmp else "no",
                                         upnp="yes" if upnp else "no", folder=folder))
        command = [_MINIUPNPD, "-d", "-f", str(config), "-P", str(folder / f"{name}-miniupnpd.pid")]
        with open(folder / f"{name}-miniupnpd.log", "wb") as log:
            daemon = subprocess.Popen(self.command(name + "-nat", command), stdout=log, stderr=log,
                                      stdin=subprocess.DEVNULL, start_new_session=True)
        return daemon

    def rules(self, name: str) -> str:
        """Shows what the router of `name` passes on to it, among other things."""
        done = subprocess.run(self.command(name + "-nat", ["/usr/sbin/nft", "list", "ruleset"]),
                              check=True, capture_output=True, text=True, timeout=30)
        return done.stdout

    def command(self, name: str, words: list[str]) -> list[str]:
        return ["/usr/sbin/ip", "netns", "exec", self._full(name), *words]

    # ---- parts -----------------------------------------------------------------------------------

    def _full(self, name: str) -> str:
        return self._stem + name

    def _namespace(self, name: str) -> None:
        _run(["ip", "netns", "add", self._full(name)])
        self._made.append(self._full(name))
        self._ip(name, "link", "set", "lo", "up")

    def _ip(self, name: str, *words: str) -> None:
        _run(["ip", "-n", self._full(name), *words])

    def _in(self, name: str, words: list[str], text: str | None = None) -> None:
        _run(["ip", "netns", "exec", self._full(name), *words], text)

    def _plug_in(self, name: str, address: str) -> None:
        port = f"p{len(self._made)}"
        _run(["ip", "link", "add", "wan0", "netns", self._full(name), "type", "veth", "peer",
              "name", port, "netns", self._full("inet")])
        self._ip("inet", "link", "set", port, "master", "br0", "up")
        self._ip(name, "addr", "add", f"{address}/24", "dev", "wan0")
        self._ip(name, "link", "set", "wan0", "up")
