"""Cases of the libp2p implementations: js and go. A session is one connection, made by either
side, on which everything is tried; other cases are about who the peers are and how they find each
other."""

import time

from partners import Failed, start_dedloc

MEGABYTES = 100
STREAMS = 1000
SECURITY = {"tls": "/tls/1.0.0", "noise": "/noise"}
IDENTIFY, PING, KAD = "/ipfs/id/1.0.0", "/ipfs/ping/1.0.0", "/ipfs/kad/1.0.0"


def expect(condition, sentence):
    if not condition:
        raise Failed(sentence)


def check_identify(dedloc, partner, security):
    seen = dedloc.ask("identify", peer=partner.id)
    expect(seen["security"] == SECURITY[security], f"dedloc says {seen['security']}")
    expect({IDENTIFY, PING} <= set(seen["protocols"]), f"dedloc was told of {seen['protocols']}")
    theirs = partner.ask("identify", peer=dedloc.id)
    expect(theirs["agent"].startswith("dedloc/"), f"agent {theirs['agent']}")
    wanted = {IDENTIFY, PING, KAD, "/dedloc-interop/sink/1"}
    expect(wanted <= set(theirs["protocols"]), f"it was told of {theirs['protocols']}")
    expect(any("/tcp/" in one for one in theirs["addresses"]), f"addresses {theirs['addresses']}")


def both(dedloc, partner, what, **arguments):
    """One request in each direction; the two answers, dedloc's first."""
    return (
        dedloc.ask(what, peer=partner.id, **arguments),
        partner.ask(what, peer=dedloc.id, **arguments),
    )


def check_bulk(dedloc, partner):
    size = MEGABYTES * 1_000_000
    out, back = both(dedloc, partner, "send", bytes=size)
    expect(out["bytes"] == size and back["bytes"] == size, f"{out} {back}")
    return f"{MEGABYTES / out['seconds']:.0f} MB/s out, {MEGABYTES / back['seconds']:.0f} MB/s in"


def check_streams(dedloc, partner):
    out, back = both(dedloc, partner, "streams", count=STREAMS)
    expect(out["good"] == STREAMS and back["good"] == STREAMS, f"{out} {back}")


def session(run, partner_kind, security, dedloc_dials):
    """The cases of one connection; the later ones fail with it if it does not come about."""
    dedloc = run.keep(start_dedloc(run.logs, [security]))
    partner = run.keep(partner_kind.start(run.logs, security=security))
    dialler, listener = (dedloc, partner) if dedloc_dials else (partner, dedloc)
    role = f"{security}, {'dedloc' if dedloc_dials else partner_kind.name} dials"
    run.case(f"{role}: connect", lambda: dialler.ask("connect", address=listener.address))
    run.case(f"{role}: identify", lambda: check_identify(dedloc, partner, security))
    run.case(f"{role}: ping", lambda: both(dedloc, partner, "ping") and None)
    run.case(f"{role}: {MEGABYTES} MB each way", lambda: check_bulk(dedloc, partner))
    run.case(f"{role}: {STREAMS} streams each way", lambda: check_streams(dedloc, partner))
    run.stop_all()


def connect_and_ping(dialler, listener):
    dialler.ask("connect", address=listener.address)
    dialler.ask("ping", peer=listener.id)
    listener.ask("ping", peer=dialler.id)


def negotiation(run, partner_kind):
    """Both sides with all they have, and where the dialler's first wish is not granted."""
    for name, ours, theirs in (
        ("both speak both", (), ""),
        ("it speaks only noise", (), "noise"),
        ("it speaks only tls", ("noise", "tls"), "tls"),
        ("dedloc speaks only noise", ("noise",), ""),
        ("dedloc speaks only tls", ("tls",), ""),
    ):
        for dedloc_dials in (True, False):
            dedloc = run.keep(start_dedloc(run.logs, ours))
            partner = run.keep(partner_kind.start(run.logs, security=theirs))
            pair = (dedloc, partner) if dedloc_dials else (partner, dedloc)
            who = "dedloc" if dedloc_dials else partner_kind.name
            run.case(f"{name}, {who} dials", lambda: connect_and_ping(*pair))
            run.stop_all()


def late_muxer(run, partner_kind):
    for security in SECURITY:
        for dedloc_dials in (True, False):
            dedloc = run.keep(start_dedloc(run.logs, [security], late_muxer=True))
            partner = run.keep(partner_kind.start(run.logs, security=security))
            pair = (dedloc, partner) if dedloc_dials else (partner, dedloc)
            who = "dedloc" if dedloc_dials else partner_kind.name
            run.case(
                f"yamux agreed on inside {security}, {who} dials", lambda: connect_and_ping(*pair)
            )
            run.stop_all()


def identities(run, partner_kind):
    begins = {"rsa": "Qm", "ecdsa": "Qm", "secp256k1": "16Uiu2HA"}
    for key in partner_kind.keys:
        prefix = begins[key]
        partner = run.keep(partner_kind.start(run.logs, key=key))
        run.case(
            f"a peer id of {key}", lambda: expect(partner.id.startswith(prefix), partner.id)
        )
        for security in SECURITY:
            dedloc = run.keep(start_dedloc(run.logs, [security]))
            run.case(f"{key} identity over {security}", lambda: connect_and_ping(dedloc, partner))
        run.stop_all()


def find_until(peer, target, seconds=15):
    """Tables fill in their own time; go-libp2p finds whoever is connected at once, but without
    addresses as long as identify is under way."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = peer.ask("find", peer=target.id)["addresses"]
            expect(found, f"{peer.name} found {target.name} without addresses")
            return found
        except Failed:
            if time.monotonic() > end:
                raise
            time.sleep(0.25)


def check_found(seeker, target):
    found = find_until(seeker, target)
    plain = target.address.partition("/p2p/")[0]
    expect(any(str(one).startswith(plain) for one in found), f"{found} instead of {plain}")
    # Found by id, it is also reached by id.
    seeker.ask("ping", peer=target.id)


def find_node(run, partner_kind):
    one = run.keep(start_dedloc(run.logs))
    other = run.keep(start_dedloc(run.logs))
    middle = run.keep(partner_kind.start(run.logs))

    def through_partner():
        for dedloc in (one, other):
            dedloc.ask("connect", address=middle.address)
        check_found(one, other)

    run.case("FIND_NODE: dedloc finds dedloc through it", through_partner)
    run.stop_all()
    one = run.keep(partner_kind.start(run.logs))
    other = run.keep(partner_kind.start(run.logs))
    middle = run.keep(start_dedloc(run.logs))

    def through_dedloc():
        for partner in (one, other):
            partner.ask("connect", address=middle.address)
            middle.ask("identify", peer=partner.id)
        check_found(one, other)

    run.case("FIND_NODE: it finds its like through dedloc", through_dedloc)
    run.stop_all()


def cases(run, partner_kind):
    if partner_kind.name not in ("js", "go"):
        return
    for security in SECURITY:
        for dedloc_dials in (True, False):
            session(run, partner_kind, security, dedloc_dials)
    negotiation(run, partner_kind)
    late_muxer(run, partner_kind)
    identities(run, partner_kind)
    find_node(run, partner_kind)
