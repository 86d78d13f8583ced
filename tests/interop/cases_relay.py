"""Cases of circuit relay v2, with the partner and with dedloc in the middle. Only relays can be
dialled here: everybody else is hidden, so that who is reached at all is reached over the relay, and
no direct connection can take the relayed one's place."""

import time

from cases_libp2p import SECURITY, expect
from partners import Failed, start_dedloc

MEGABYTE = 1_000_000
BULK = 10 * MEGABYTE
# A relay of go-libp2p or js-libp2p lets a circuit carry this if nobody says otherwise: one way (js:
# both together), handshakes and identify included.
LIMIT = 1 << 17
WITHIN_LIMIT = 30_000
STREAMS = 20
FAILURE_SECONDS_MAX = 30  # p2pd also looks for other addresses, by FIND_NODE
RESERVATION_SECONDS_MAX = 20
NOT_RESERVED = "does not know that peer"  # dedloc's word for NO_RESERVATION


def kind_of(peer):
    return peer.name.partition("-")[0]


def behind(relay, peer):
    return f"{relay.address}/p2p-circuit/p2p/{peer.id}"


def reserve(dedloc, relay):
    """dedloc takes a reservation wherever it is connected and needs one."""
    dedloc.ask("connect", address=relay.address)
    addresses = dedloc.ask("reserved")["addresses"]
    wanted = f"{relay.address}/p2p-circuit"
    expect(wanted in addresses, f"{addresses} without {wanted}")


def until_reached(dedloc, peer, relay):
    """A foreign peer reserves by itself, and not all of them tell when they have: go-libp2p takes
    addresses of a relay for its own only if they are public."""
    end = time.monotonic() + RESERVATION_SECONDS_MAX
    while True:
        try:
            dedloc.ask("connect", address=behind(relay, peer))
            return check_paths(dedloc, peer)
        except Failed as failed:
            expect(NOT_RESERVED in str(failed) and time.monotonic() < end, str(failed))
            time.sleep(0.1)


def check_paths(one, other):
    for peer, remote in ((one, other), (other, one)):
        path = peer.ask("path", peer=remote.id)["path"]
        expect(path == "relayed", f"{peer.name} says that its connection is {path}")


def check_talk(dialler, target, relay, size):
    """A connection through the relay, on which all works that works on a direct one."""
    dialler.ask("connect", address=behind(relay, target))
    check_paths(dialler, target)
    speeds = []
    for peer, remote in ((dialler, target), (target, dialler)):
        if kind_of(peer) != "hivemind":  # the daemon has no request for it
            peer.ask("ping", peer=remote.id)
        peer.ask("streams", peer=remote.id, count=STREAMS)
        sent = peer.ask("send", peer=remote.id, bytes=size)
        expect(sent["bytes"] == size, f"{sent} of {size} bytes")
        speeds.append(f"{size / MEGABYTE / sent['seconds']:.0f}")
    check_paths(dialler, target)
    return f"{speeds[0]} and {speeds[1]} MB/s" if size >= BULK else None


def check_security(dedloc, peer, relay, of_relay):
    """The two ends have keys of their own, whatever either has agreed on with the relay."""
    security = {one.id: dedloc.ask("identify", peer=one.id)["security"] for one in (peer, relay)}
    expect(security[peer.id] == SECURITY["tls"], f"with the peer: {security[peer.id]}")
    wanted = SECURITY[of_relay]
    expect(security[relay.id] == wanted, f"with the relay: {security[relay.id]}")


def check_refusal(dialler, stranger, relay, word):
    begun = time.monotonic()
    try:
        dialler.ask("connect", address=behind(relay, stranger))
    except Failed as failed:
        expect(word in str(failed), f"not \"{word}\" but: {failed}")
        seconds = time.monotonic() - begun
        expect(seconds < FAILURE_SECONDS_MAX, f"said only after {seconds:.0f} s")
        return
    raise Failed(f"{dialler.name} is connected to one who has no reservation")


def check_limit(dialler, target, relay):
    """More than the relay carries fails soon; then a new circuit can be had."""
    dialler.ask("connect", address=behind(relay, target))
    begun = time.monotonic()
    try:
        dialler.ask("send", peer=target.id, bytes=MEGABYTE)
    except Failed:
        seconds = time.monotonic() - begun
        expect(seconds < FAILURE_SECONDS_MAX, f"it failed only after {seconds:.0f} s")
    else:
        raise Failed(f"{MEGABYTE} bytes went through a relay that carries {LIMIT}")
    send_again(dialler, target, relay)
    check_paths(dialler, target)


def send_again(dialler, target, relay):
    """For a moment each side may still hold the broken connection for a good one."""
    end = time.monotonic() + FAILURE_SECONDS_MAX
    while True:
        try:
            dialler.ask("connect", address=behind(relay, target))
            return dialler.ask("send", peer=target.id, bytes=WITHIN_LIMIT)
        except Failed:
            if time.monotonic() > end:
                raise
            time.sleep(0.25)


def through_partner(run, partner_kind):
    name = partner_kind.name
    limits = partner_kind.relay_limits[0]
    size = BULK if limits == "none" else WITHIN_LIMIT
    how = {} if name == "hivemind" else {"security": "noise"}  # p2pd always has both
    relay = run.keep(partner_kind.start(run.logs, relay=limits, **how))
    one, other, stranger = (run.keep(start_dedloc(run.logs, hidden=True)) for _ in range(3))
    foreign = run.keep(partner_kind.start(run.logs, hidden=True))
    reserving = run.keep(partner_kind.start(run.logs, reserve=relay.address))
    through = f"relay {name}"
    run.case(f"{through}: dedloc reserves", lambda: reserve(one, relay))
    run.case(f"{through}: {name} reserves", lambda: until_reached(other, reserving, relay))
    for dialler, target in ((other, one), (foreign, one), (other, reserving)):
        pair = f"{kind_of(dialler)} dials {kind_of(target)}"
        run.case(f"{through}: {pair}", lambda: check_talk(dialler, target, relay, size))
    of_relay = how.get("security", "tls")
    for target in (one, reserving):
        secured = lambda: check_security(other, target, relay, of_relay)
        run.case(f"{through}: dedloc and {kind_of(target)} have their own keys", secured)
    refused = lambda: check_refusal(other, stranger, relay, NOT_RESERVED)
    run.case(f"{through}: no reservation, dedloc is told", refused)
    if limits == "default":
        run.case(f"{through}: more than its limit", lambda: check_limit(other, one, relay))
    run.stop_all()


def through_dedloc(run, partner_kind):
    name = partner_kind.name
    relay = run.keep(start_dedloc(run.logs, relay_bytes=0))
    one, other, stranger = (run.keep(start_dedloc(run.logs, hidden=True)) for _ in range(3))
    foreign = run.keep(partner_kind.start(run.logs, hidden=True))
    reserving = run.keep(partner_kind.start(run.logs, reserve=relay.address))
    through = f"relay dedloc, with {name}"
    run.case(f"{through}: {name} reserves", lambda: until_reached(other, reserving, relay))
    run.case(f"{through}: dedloc reserves", lambda: reserve(one, relay))
    for dialler, target in ((other, reserving), (foreign, reserving), (foreign, one)):
        pair = f"{kind_of(dialler)} dials {kind_of(target)}"
        run.case(f"{through}: {pair}", lambda: check_talk(dialler, target, relay, BULK))
    refused = lambda: check_refusal(foreign, stranger, relay, "NO_RESERVATION")
    run.case(f"{through}: no reservation, {name} is told", refused)
    run.stop_all()


def limited_partner(run, partner_kind):
    relay = run.keep(partner_kind.start(run.logs, relay="default"))
    one, other = (run.keep(start_dedloc(run.logs, hidden=True)) for _ in range(2))

    def exceed():
        reserve(one, relay)
        check_limit(other, one, relay)

    run.case(f"relay {partner_kind.name}: more than its limit", exceed)
    run.stop_all()


def limited_dedloc(run, partner_kind):
    relay = run.keep(start_dedloc(run.logs, relay_bytes=LIMIT))
    dedloc = run.keep(start_dedloc(run.logs, hidden=True))
    dialler = run.keep(partner_kind.start(run.logs, hidden=True))
    target = run.keep(partner_kind.start(run.logs, reserve=relay.address))

    def exceed():
        until_reached(dedloc, target, relay)
        check_limit(dialler, target, relay)

    run.case(f"relay dedloc, with {partner_kind.name}: more than its limit", exceed)
    run.stop_all()


def cases(run, partner_kind):
    through_partner(run, partner_kind)
    through_dedloc(run, partner_kind)
    if "none" in partner_kind.relay_limits:  # or all of its cases were with its limit
        limited_partner(run, partner_kind)
    limited_dedloc(run, partner_kind)
