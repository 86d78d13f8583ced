"""A real hivemind peer (its Python over its own Go daemon) that does what it is told on standard
input: see tests/interop/README.md."""
import argparse
import asyncio
import functools
import hashlib
import json
import os
import struct
import sys
import time

import hivemind
from hivemind.dht import DHTNode
from hivemind.p2p import P2P, PeerID
from multiaddr import Multiaddr

SINK = "/dedloc-interop/sink/1"
ECHO = "/dedloc-interop/echo/1"
PIECE = 1 << 20
RECORD_MAX = 4 << 20


# ---------------------------------------------------------------------------- records on a stream


def write(writer, kind, payload=b""):
    writer.write(struct.pack(">BQ", kind, len(payload)) + payload)


async def read(reader):
    """None: the other side has nothing more to say."""
    try:
        kind, size = struct.unpack(">BQ", await reader.readexactly(9))
    except asyncio.IncompleteReadError:
        return None
    if size > RECORD_MAX:
        raise RuntimeError(f"a record of {size} bytes")
    payload = await reader.readexactly(size)
    if kind == 1:
        if size:
            raise RuntimeError(f"the other side failed: {payload!r}")
        return None
    return payload


async def serve_sink(_info, reader, writer):
    digest, count = hashlib.sha256(), 0
    while (payload := await read(reader)) is not None:
        digest.update(payload)
        count += len(payload)
    write(writer, 0, json.dumps({"bytes": count, "sha256": digest.hexdigest()}).encode())
    await writer.drain()
    writer.close()


async def serve_echo(_info, reader, writer):
    while (payload := await read(reader)) is not None:
        write(writer, 0, payload)
        await writer.drain()
    writer.close()


# --------------------------------------------------------------------------------------- requests


def is_relayed(address):
    return "/p2p-circuit" in str(address)


class Peer:
    def __init__(self, p2p):
        self.p2p = p2p
        self.node = None

    async def connect(self, address, **_):
        whole, _, peer = address.rpartition("/p2p/")
        await self.p2p._client.connect(PeerID.from_base58(peer), [Multiaddr(whole)])
        return {"peer": peer}

    async def send(self, peer, bytes, **_):
        to = PeerID.from_base58(peer)
        _, reader, writer = await self.p2p.call_binary_stream_handler(to, SINK)
        begun, digest, left = time.monotonic(), hashlib.sha256(), bytes
        while left:
            piece = os.urandom(min(left, PIECE))
            digest.update(piece)
            write(writer, 0, piece)
            await writer.drain()
            left -= len(piece)
        write(writer, 1)
        report = json.loads(await read(reader))
        writer.close()
        if report["sha256"] != digest.hexdigest():
            raise RuntimeError("other bytes arrived than were sent")
        return {"bytes": report["bytes"], "seconds": time.monotonic() - begun}

    async def streams(self, peer, count, **_):
        """Many at once: none is ended before the last has its echo."""

        async def one():
            _, reader, writer = await self.p2p.call_binary_stream_handler(
                PeerID.from_base58(peer), ECHO
            )
            write(writer, 0, bytes(100))
            if len(await read(reader) or b"") != 100:
                raise RuntimeError("no echo, or a short one")
            return writer

        writers = await asyncio.gather(*(one() for _ in range(count)))
        for writer in writers:
            writer.close()
        return {"good": len(writers)}

    async def path(self, peer, **_):
        """How the peer is connected; whoever was dialled may not have finished when the dialler
        has."""
        for _ in range(500):
            known = [one for one in await self.p2p.list_peers() if one.peer_id.to_base58() == peer]
            relayed = [is_relayed(address) for one in known for address in one.addrs]
            if relayed:
                return {"path": "relayed" if all(relayed) else "direct"}
            await asyncio.sleep(0.01)
        raise RuntimeError("not connected")

    async def dht_start(self, bootstrap=(), **_):
        for address in bootstrap:
            await self.connect(address)
        self.node = await DHTNode.create(p2p=self.p2p, initial_peers=list(bootstrap) or None)
        return {"answered": len(self.node.protocol.routing_table.peer_id_to_uid)}

    async def dht_store(self, key, value, expiration, subkey=None, **_):
        good = await self.node.store(key, value, expiration, subkey=subkey)
        if not good:
            raise RuntimeError("nobody took it")
        return {"accepted": 1}

    async def dht_get(self, key, **_):
        found = await self.node.get(key, latest=True)
        if found is None:
            return {"found": None}
        if isinstance(found.value, dict):
            entries = {
                str(subkey): {"value": entry.value, "expiration": entry.expiration_time}
                for subkey, entry in found.value.items()
            }
            return {"found": {"dictionary": entries}}
        return {"found": {"value": found.value, "expiration": found.expiration_time}}


# The daemon connects to Python anew for each stream; asyncio's backlog would refuse a thousand.
asyncio.start_unix_server = functools.partial(asyncio.start_unix_server, backlog=4096)


async def start_daemon(arguments):
    if not arguments.reserve:
        return await P2P.create(
            identity_path=arguments.identity, nat_port_map=False, no_listen=arguments.hidden
        )
    # A daemon that also looks for other relays takes up to half a minute to reserve. It has a flag
    # against that, P2P.create() has no word for it.
    make = functools.partial(P2P._make_process_args, relayDiscovery=0)
    P2P._make_process_args = staticmethod(make)
    return await P2P.create(
        identity_path=arguments.identity,
        nat_port_map=False,
        no_listen=True,
        use_auto_relay=True,
        force_reachability="private",
        trusted_relays=[arguments.reserve],
    )


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--identity", help="a file of an RSA key, made if it is missing")
    parser.add_argument("--relay", choices=["default"], help="the daemon serves as one anyway")
    parser.add_argument("--hidden", action="store_true", help="listen nowhere")
    parser.add_argument("--reserve", help="listen nowhere but at that relay")
    arguments = parser.parse_args()
    p2p = await start_daemon(arguments)
    await p2p.add_binary_stream_handler(SINK, serve_sink)
    await p2p.add_binary_stream_handler(ECHO, serve_echo)
    _, visible = await p2p._client.identify()
    addresses = [str(address).partition("/p2p/")[0] for address in visible]
    peer = Peer(p2p)
    print(json.dumps({"id": p2p.peer_id.to_base58(), "addresses": addresses}), flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    requests = ("connect", "send", "streams", "path", "dht_start", "dht_store", "dht_get")
    while line := await lines.readline():
        request = json.loads(line)
        name = request.pop("do")
        try:
            if name not in requests:
                raise RuntimeError(f"unknown request {name}")
            answer = {"ok": True, **await getattr(peer, name)(**request)}
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    if peer.node is not None:
        await peer.node.shutdown()
    await p2p.shutdown()


assert hivemind.__version__ == "1.1.12", hivemind.__version__
asyncio.run(main())
