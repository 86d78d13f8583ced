"""Cases of hivemind 1.1.12: its daemon (go-libp2p 0.32) by itself, and its DHT in one table with
ours."""

import time

from cases_libp2p import (
    MEGABYTES,
    SECURITY,
    STREAMS,
    check_bulk,
    check_found,
    check_streams,
    expect,
)
from partners import start_dedloc

HOUR = 3600.0


def check_identify(dedloc, partner, security):
    seen = dedloc.ask("identify", peer=partner.id)
    expect(seen["agent"].startswith("p2pd/"), f"agent {seen['agent']}")
    expect(seen["security"] == SECURITY[security], f"dedloc says {seen['security']}")
    expect("/ipfs/kad/1.0.0" in seen["protocols"], f"protocols {seen['protocols']}")


def session(run, partner_kind, security, dedloc_dials):
    dedloc = run.keep(start_dedloc(run.logs, [security]))
    daemon = run.keep(partner_kind.start(run.logs))
    dialler, listener = (dedloc, daemon) if dedloc_dials else (daemon, dedloc)
    role = f"{security}, {'dedloc' if dedloc_dials else 'p2pd'} dials"
    run.case(f"{role}: connect", lambda: dialler.ask("connect", address=listener.address))
    run.case(f"{role}: identify", lambda: check_identify(dedloc, daemon, security))
    run.case(f"{role}: ping", lambda: dedloc.ask("ping", peer=daemon.id) and None)
    run.case(f"{role}: {MEGABYTES} MB each way", lambda: check_bulk(dedloc, daemon))
    run.case(f"{role}: {STREAMS} streams each way", lambda: check_streams(dedloc, daemon))
    run.stop_all()


def rsa_identity(run, partner_kind):
    daemon = run.keep(partner_kind.start(run.logs, identity=run.logs / f"rsa-{time.time_ns()}"))
    dedloc = run.keep(start_dedloc(run.logs))

    def talk():
        expect(daemon.id.startswith("Qm"), daemon.id)
        daemon.ask("connect", address=dedloc.address)
        dedloc.ask("ping", peer=daemon.id)

    run.case("an RSA identity file", talk)
    run.stop_all()


def find_node(run, partner_kind):
    middle = run.keep(partner_kind.start(run.logs))
    one, other = (run.keep(start_dedloc(run.logs)) for _ in range(2))

    def through_daemon():
        for dedloc in (one, other):
            dedloc.ask("connect", address=middle.address)
        check_found(one, other)

    run.case("FIND_NODE: dedloc finds dedloc through p2pd", through_daemon)
    run.stop_all()
    middle = run.keep(start_dedloc(run.logs))
    one, other = (run.keep(partner_kind.start(run.logs)) for _ in range(2))

    def through_dedloc():
        for daemon in (one, other):
            daemon.ask("connect", address=middle.address)
            middle.ask("identify", peer=daemon.id)
        # The node knows only the other's id.
        end = time.monotonic() + 15
        while True:
            try:
                return one.ask("streams", peer=other.id, count=1) and None
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.25)

    run.case("FIND_NODE: p2pd reaches p2pd by id through dedloc", through_dedloc)
    run.stop_all()


# -------------------------------------------------------------------------------------- its DHT


def until_found(peer, key, good, seconds=20):
    """A record may still be on its way to who is asked."""
    end = time.monotonic() + seconds
    while True:
        found = peer.ask("dht_get", key=key)["found"]
        if good(found):
            return
        expect(time.monotonic() < end, f"{peer.name} finds {found} under {key}")
        time.sleep(0.1)


def check_value(writer, reader, key):
    expiration = time.time() + HOUR
    for value in ("text", 5, 2.5, [1, "two", [3.0]]):
        expiration += 1.0  # the later expiration wins
        writer.ask("dht_store", key=key, value=value, expiration=expiration)
        wanted = {"value": value, "expiration": expiration}
        until_found(reader, key, lambda found: found == wanted)


def check_dictionary(one, other, key):
    """Both write into one dictionary; both read all of it, each entry with its own expiration."""
    wanted = {}
    for number, writer in enumerate((one, other, one, other)):
        entry = {"value": f"of {writer.name}", "expiration": time.time() + HOUR + number}
        wanted[f"subkey {number}"] = entry
        writer.ask("dht_store", key=key, subkey=f"subkey {number}", **entry)
    for reader in (one, other):
        until_found(reader, key, lambda found: found == {"dictionary": wanted})


def check_expiration(writer, reader, key):
    expiration = time.time() + 3.0
    writer.ask("dht_store", key=key, value=1, expiration=expiration)
    until_found(reader, key, lambda found: found == {"value": 1, "expiration": expiration})
    time.sleep(max(0.0, expiration - time.time()) + 0.5)
    for peer in (writer, reader):
        expect(peer.ask("dht_get", key=key)["found"] is None, f"{peer.name} reads what has expired")


def table(run, partner_kind, dedloc_first):
    dedloc = run.keep(start_dedloc(run.logs))
    hivemind = run.keep(partner_kind.start(run.logs))
    first, second = (dedloc, hivemind) if dedloc_first else (hivemind, dedloc)
    who = "hivemind joins dedloc" if dedloc_first else "dedloc joins hivemind"

    def join():
        first.ask("dht_start")
        answered = second.ask("dht_start", bootstrap=[first.address])["answered"]
        expect(answered >= 1, "nobody answered")

    run.case(f"{who}: bootstrap", join)
    for writer, reader in ((dedloc, hivemind), (hivemind, dedloc)):
        whose = f"{who}: {writer.name.partition('-')[0]}'s"
        run.case(f"{whose} values", lambda: check_value(writer, reader, f"v {writer.name}"))
        key = f"e {writer.name}"
        run.case(f"{whose} expirations", lambda: check_expiration(writer, reader, key))
    run.case(f"{who}: a dictionary of both", lambda: check_dictionary(dedloc, hivemind, "d"))
    run.stop_all()


def sudden_death(run, partner_kind, victim_is_dedloc):
    """Two of each; one dies without a word: the others go on, and nothing stored is lost."""
    victim_kind, others = ("dedloc", "hivemind") if victim_is_dedloc else ("hivemind", "dedloc")
    start = {
        "dedloc": lambda: start_dedloc(run.logs),
        "hivemind": lambda: partner_kind.start(run.logs),
    }
    victim = run.keep(start[victim_kind]())
    same = run.keep(start[victim_kind]())
    foreign = [run.keep(start[others]()) for _ in range(2)]
    key, expiration = "kept", time.time() + HOUR

    def build():
        victim.ask("dht_start")
        for peer in (same, *foreign):
            peer.ask("dht_start", bootstrap=[victim.address])
        victim.ask("dht_store", key=key, value="before", expiration=expiration)
        for peer in (same, *foreign):
            until_found(peer, key, lambda found: found and found["value"] == "before")

    def go_on():
        victim.kill()
        survivors = (same, *foreign)
        for peer in survivors:
            until_found(peer, key, lambda found: found and found["value"] == "before", 40)
        for number, writer in enumerate(survivors):
            new = f"after {number}"
            writer.ask("dht_store", key=new, value=number, expiration=expiration)
            for reader in survivors:
                until_found(reader, new, lambda found: found and found["value"] == number, 40)

    run.case(f"a table of four around {victim_kind}", build)
    run.case(f"{victim_kind} dies suddenly: the others go on", go_on)
    run.stop_all()


def cases(run, partner_kind):
    if partner_kind.name != "hivemind":
        return
    for security in SECURITY:
        for dedloc_dials in (True, False):
            session(run, partner_kind, security, dedloc_dials)
    rsa_identity(run, partner_kind)
    find_node(run, partner_kind)
    for dedloc_first in (True, False):
        table(run, partner_kind, dedloc_first)
    for victim_is_dedloc in (True, False):
        sudden_death(run, partner_kind, victim_is_dedloc)
