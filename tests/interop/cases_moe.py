"""Experts: hivemind's Python clients against our server, our client against its server, both
searches in both tables. Every figure is compared with the same layer computed by torch at home."""

import random

from cases_libp2p import expect
from partners import start_dedloc

ONLY = "moe"
WIDTH, RATE = 16, 0.1
TOLERANCE = 1e-5


def flatten(nested):
    if isinstance(nested, (list, tuple)):
        return [number for item in nested for number in flatten(item)]
    return [nested]


def check_equal(what, ours, theirs, tolerance=TOLERANCE):
    """Flattens both: above 1 the tolerance is a part."""
    ours, theirs = flatten(ours), flatten(theirs)
    expect(len(ours) == len(theirs), f"{what}: {len(ours)} and {len(theirs)} numbers")
    worst = max(abs(one - other) / max(1.0, abs(other)) for one, other in zip(ours, theirs))
    expect(worst <= tolerance, f"{what} differ by {worst:.2e}")
    return worst


def matrix(source, rows, columns):
    return [[source.gauss(0, 1) for _ in range(columns)] for _ in range(rows)]


def uids_of(grid, sizes):
    names = [grid]
    for size in sizes:
        names = [f"{name}.{number}" for name in names for number in range(size)]
    return names


def check_python_calls_ours(dedloc, python):
    source = random.Random(1)
    before = dedloc.ask("experts_parameters", uid="ours.0.1")["parameters"]
    inputs, gradients = matrix(source, 7, WIDTH), matrix(source, 7, WIDTH)
    expected = python.ask(
        "reference", parameters=before, width=WIDTH, rate=RATE, inputs=inputs, gradients=gradients
    )
    found = python.ask("remote", uid="ours.0.1", inputs=inputs, gradients=gradients)
    worst = [check_equal(name, found[name], expected[name]) for name in ("outputs", "gradients")]
    after = dedloc.ask("experts_parameters", uid="ours.0.1")
    expect(after["updates"] == 1, f"{after['updates']} updates")
    worst += [check_equal("parameters", after["parameters"], expected["parameters"])]
    return f"worst {max(worst):.1e}"


def check_large(dedloc, python):
    """4.2 MB: streams of several messages."""
    source = random.Random(2)
    before = dedloc.ask("experts_parameters", uid="wide.0.0")["parameters"]
    inputs, gradients = matrix(source, 4096, 260), matrix(source, 4096, 260)
    arguments = {"inputs": inputs, "gradients": gradients}
    expected = python.ask("reference", parameters=before, width=260, rate=RATE, **arguments)
    found = python.ask("remote", uid="wide.0.0", **arguments)
    worst = [check_equal(name, found[name], expected[name]) for name in ("outputs", "gradients")]
    return f"worst {max(worst):.1e}"


def check_ours_calls_python(dedloc, python):
    source = random.Random(3)
    before = python.ask("parameters", uid="theirs.1.2")["parameters"]
    inputs, gradients = matrix(source, 7, WIDTH), matrix(source, 7, WIDTH)
    expected = python.ask(
        "reference", parameters=before, width=WIDTH, rate=RATE, inputs=inputs, gradients=gradients
    )
    found = dedloc.ask("experts_call", uid="theirs.1.2", inputs=inputs, gradients=gradients)
    worst = [check_equal(name, found[name], expected[name]) for name in ("outputs", "gradients")]
    after = python.ask("parameters", uid="theirs.1.2")["parameters"]
    worst += [check_equal("parameters", after, expected["parameters"])]
    return f"worst {max(worst):.1e}"


def mixture_setting(source, sizes):
    gate = {
        "weight": matrix(source, sum(sizes), WIDTH),
        "bias": [source.gauss(0, 1) for _ in range(sum(sizes))],
    }
    return gate, matrix(source, 6, WIDTH), matrix(source, 6, WIDTH)


def check_python_mixes_ours(dedloc, python):
    sizes, source = [2, 3], random.Random(4)
    gate, inputs, gradients = mixture_setting(source, sizes)
    experts = {
        uid: dedloc.ask("experts_parameters", uid=uid)["parameters"]
        for uid in uids_of("ours", sizes)
    }
    common = {"sizes": sizes, "best": 6, "gate": gate, "inputs": inputs, "gradients": gradients}
    expected = python.ask("reference_mix", experts=experts, width=WIDTH, **common)
    found = python.ask("mix", grid="ours", **common)
    worst = [check_equal("outputs", found["outputs"], expected["outputs"])]
    worst += [check_equal("gate's gradients", found["gate_gradient"], expected["gate_gradient"])]
    # Each row calls by itself, and an expert moves between two of them: only near.
    check_equal("gradients", found["gradients"], expected["gradients"], 0.5)
    return f"worst {max(worst):.1e}"


def check_ours_mixes_python(dedloc, python):
    sizes, source = [2, 3], random.Random(5)
    gate, inputs, gradients = mixture_setting(source, sizes)
    experts = {
        uid: python.ask("parameters", uid=uid)["parameters"] for uid in uids_of("theirs", sizes)
    }
    common = {"sizes": sizes, "best": 3, "gate": gate, "inputs": inputs, "gradients": gradients}
    expected = python.ask("reference_mix", experts=experts, width=WIDTH, **common)
    scores = python.ask("gate_scores", sizes=sizes, gate=gate, inputs=inputs)["scores"]
    found = dedloc.ask(
        "experts_mix",
        grid="theirs",
        sizes=sizes,
        best=3,
        scores=scores,
        inputs=inputs,
        gradients=gradients,
    )
    expect(not found["lost"], "an expert did not answer")
    worst = [check_equal("outputs", found["outputs"], expected["outputs"])]
    slopes = [sum(flat) for flat in zip(*(flatten(row) for row in found["score_gradients"]))]
    worst += [check_equal("gate's gradients", slopes, expected["gate_gradient"])]
    # The rest of the inputs' gradient goes through the gate.
    through_gate = [
        [
            sum(slope * weight[j] for slope, weight in zip(flatten(row), gate["weight"]))
            for j in range(WIDTH)
        ]
        for row in found["score_gradients"]
    ]
    whole = [
        [one + other for one, other in zip(*rows)]
        for rows in zip(found["gradients"], through_gate)
    ]
    worst += [check_equal("gradients", whole, expected["gradients"])]
    return f"worst {max(worst):.1e}"


def check_search(searcher, request, grid, sizes, served):
    """25 random queries; the beam is as wide as hivemind's test has it."""
    source = random.Random(6)
    queries = [[[source.gauss(0, 1) for _ in range(size)] for size in sizes] for _ in range(25)]
    found = searcher.ask(request, grid=grid, sizes=sizes, scores=queries, best=25)["chosen"]
    for query, names in zip(queries, found):

        def score(uid):
            return sum(axis[int(at)] for axis, at in zip(query, uid.split(".")[1:]))

        expected = sorted(served, key=score, reverse=True)[:9]
        expect(names[:9] == expected, f"{searcher.name} finds {names[:9]}, not {expected}")


def check_unknown(dedloc, python):
    """An error of ours arrives as an error, and the server goes on."""
    bad = python.ask_for_error("remote", uid="ours.0.1", inputs=[[1.0] * 5], gradients=[[1.0] * 5])
    expect("shape" in bad, bad)
    good = matrix(random.Random(7), 2, WIDTH)
    python.ask("remote", uid="ours.0.1", inputs=good, gradients=good)


def check_many(dedloc, python):
    """An answer whose end overtook its bytes was lost once in some hundred calls."""
    good = matrix(random.Random(10), 2, WIDTH)
    for _ in range(200):
        python.ask("remote", uid="ours.0.1", inputs=good, gradients=good)


def check_records(dedloc, python):
    """Forty records and more: signed by either side, unsigned, forged, of wrong types."""
    owner = dedloc.ask("record_owner")["owner"]
    made = python.ask("records", theirs=owner)
    bases, records = made["both"], made["both"] + made["free"]
    for signer in (dedloc, python):
        request = "record_sign" if signer is dedloc else "sign"
        values = signer.ask(request, records=bases)["values"]
        signed = [[*base[:2], value] for base, value in zip(bases, values)]
        records += [each for each, base in zip(signed, bases) if each != base]
    signed = records[len(bases) + len(made["free"]) :]
    # A signature under another value, one under another key, two of them.
    for index, each in enumerate(signed[:6]):
        mark = each[2].index(b"[signature:".hex())
        other = signed[(index + 1) % len(signed)]
        records.append([*each[:2], "07" + each[2][mark:]])
        records.append([other[0][::-1], *each[1:]])
        records.append([*each[:2], each[2] + each[2][mark:]])
    ours = dedloc.ask("record_validate", records=records)["accepted"]
    theirs = python.ask("validate", records=records)["accepted"]
    expect(len(records) >= 40, f"only {len(records)} records")
    differing = [record for record, a, b in zip(records, ours, theirs) if a != b]
    expect(not differing, f"we say another thing of {len(differing)}: {differing[:2]}")
    expect(min(sum(theirs), len(theirs) - sum(theirs)) >= 10, f"{sum(theirs)} accepted")
    return f"{sum(theirs)} of {len(records)} accepted by both"


def cases(run, partner):
    if partner.name != "hivemind":
        return
    dedloc = run.keep(start_dedloc(run.logs))
    dedloc.ask("dht_start")
    python = run.keep(partner.start_moe(run.logs, dedloc.address))
    sizes = [2, 3]
    ours, theirs = uids_of("ours", sizes), uids_of("theirs", sizes)
    sparse = random.Random(8).sample(uids_of("grid", [5, 5, 5]), 40)
    elsewhere = random.Random(9).sample(uids_of("other", [5, 5, 5]), 40)

    def serve():
        dedloc.ask("experts_serve", uids=ours, width=WIDTH, rate=RATE)
        dedloc.ask("experts_serve", uids=["wide.0.0"], width=260, rate=RATE)
        python.ask("serve", uids=theirs, width=WIDTH, rate=RATE)

    run.case("moe: bootstrap", serve)
    two = (dedloc, python)
    run.case("moe: RemoteExpert calls our server", lambda: check_python_calls_ours(*two))
    run.case("moe: RemoteExpert's streams to our server", lambda: check_large(*two))
    run.case("moe: our client calls its Server", lambda: check_ours_calls_python(*two))
    run.case("moe: RemoteMixtureOfExperts over our experts", lambda: check_python_mixes_ours(*two))
    run.case("moe: our mixture over its experts", lambda: check_ours_mixes_python(*two))
    run.case("moe: an error of our server is one of the caller", lambda: check_unknown(*two))
    run.case("moe: hundreds of calls are answered", lambda: check_many(*two))

    run.case("moe: validators accept and refuse the same records", lambda: check_records(*two))

    def we_search():
        python.ask("declare", uids=sparse)
        check_search(dedloc, "experts_search", "grid", [5, 5, 5], sparse)

    def it_searches():
        dedloc.ask("experts_serve", uids=elsewhere, width=WIDTH, rate=RATE)
        check_search(python, "search", "other", [5, 5, 5], elsewhere)

    run.case("moe: our beam search finds the best of 25 queries", we_search)
    run.case("moe: its beam search finds the best of 25 queries", it_searches)
    run.stop_all()
