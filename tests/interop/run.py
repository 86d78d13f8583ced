#!/usr/bin/env python3
"""Runs dedloc beside foreign implementations. See run.sh and docs/interop.md.

Cases are in cases_*.py: each has cases(run, partner), which starts peers with run.keep(...), tries
things with run.case(name, function) and ends with run.stop_all(). A new file is found by itself.

Partners are tried at the same time. Ends with 0 when no case failed, 1 when one did, 77 when every
partner was skipped."""

import argparse
import importlib
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pathlib import Path

from partners import HERE, PARTNERS, Failed, Unavailable

SKIPPED_ALL = 77


class Run:
    def __init__(self, logs, partner, only, verbose):
        self.logs, self.partner, self.only, self.verbose = logs, partner, only, verbose
        self.passed, self.failures, self.skipped, self.peers = 0, [], "", []

    def keep(self, peer):
        self.peers.append(peer)
        return peer

    def stop_all(self):
        for peer in self.peers:
            peer.stop()
        self.peers = []

    def case(self, name, function):
        # A session needs what comes before, too: connections are always made.
        if self.only and self.only not in name and not name.endswith(("connect", "bootstrap")):
            return
        begun = time.monotonic()
        try:
            remark = function()
        except Failed as failed:
            self.failures.append(f"{self.partner}: {name}: {failed}")
            print(f"FAILED {self.partner}: {name}\n       {failed}", flush=True)
            return
        self.passed += 1
        seconds = time.monotonic() - begun
        if self.verbose:
            text = f"  ({remark})" if isinstance(remark, str) else ""
            print(f"ok     {self.partner}: {name}  {seconds:.1f} s{text}", flush=True)


def chosen_modules(only):
    """All; a subject that has a file of its own (ONLY = ...) needs only that."""
    names = [path.stem for path in sorted(HERE.glob("cases_*.py"))]
    modules = [importlib.import_module(name) for name in names]
    own = [module for module in modules if only and getattr(module, "ONLY", None) == only]
    return own or modules


def run_partner(name, build, logs, options):
    """Fetches one partner and tries all cases with it."""
    partner = PARTNERS[name](build)
    run = Run(logs, name, options.only, not options.quiet)
    try:
        partner.prepare()
        for module in chosen_modules(options.only):
            module.cases(run, partner)
    except Unavailable as reason:
        run.skipped = str(reason)
        print(f"skipped {name}: {reason}", flush=True)
    except Failed as failed:  # it does not build, or a peer does not even start
        run.failures.append(f"{name}: {failed}")
        print(f"FAILED {name}: {failed}", flush=True)
    finally:
        run.stop_all()
    return run


def main():
    parser = argparse.ArgumentParser(description="dedloc beside foreign implementations")
    parser.add_argument("--partner", action="append", choices=sorted(PARTNERS), help="only these")
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--build", default=str(HERE.parent.parent / "build/interop"))
    parser.add_argument("--quiet", action="store_true", help="only what fails")
    parser.add_argument("--json", action="store_true", help="the last line is one object")
    options = parser.parse_args()
    if "DEDLOC_PEER" not in os.environ:
        sys.exit("DEDLOC_PEER is not set; use run.sh")
    # 1,000 streams are 1,000 sockets between hivemind and its daemon.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 65536), limit))
    build = Path(options.build).resolve()
    logs = build / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    names = options.partner or list(PARTNERS)
    with ThreadPoolExecutor(len(names)) as pool:
        outcomes = list(pool.map(lambda name: run_partner(name, build, logs, options), names))
    passed = sum(outcome.passed for outcome in outcomes)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    skipped = {outcome.partner: outcome.skipped for outcome in outcomes if outcome.skipped}
    print(f"{passed} passed, {len(failures)} failed, {len(skipped)} partners skipped")
    if options.json:
        summary = {
            "passed": passed,
            "failed": len(failures),
            "skipped": len(skipped),
            "reasons": skipped,
            "failures": failures,
            "seconds": round(time.monotonic() - begun, 1),
        }
        print(json.dumps(summary))
    if failures:
        sys.exit(1)
    sys.exit(SKIPPED_ALL if not passed and skipped else 0)


if __name__ == "__main__":
    main()
