"""A day of a fleet of preemptible machines, as `dedloc-lab fleet --trace` takes it.

    experiments/fleet/make_spot_trace.py [--seed N] [--machines N] [--hours N] > spot.csv

Published: AWS' Spot Instance Advisor puts instance types into bands, from under 5 % to over 20 % of
machines interrupted in a month; AWS gives two minutes' notice. Traces of V100 machines there
(SkyPilot's spot-traces, NSDI 2024, 5-minute ticks) are far worse: whole groups go at once, several
times a day, and come back within minutes to hours.
Ours is of that worse kind: each machine goes alone with a chance of 10 % an hour, and every three
hours a third of all goes at once. One in five gets no notice, which no cloud publishes: it is what
dedloc must stand. A machine is replaced after five minutes to an hour.

Columns: machine (from 1; 0 is the host, which nobody takes), then seconds from the beginning: when
the notice comes, when the machine is gone (the same: there was none), when its successor trains.
"""

from __future__ import annotations

import argparse
import random

ALONE_AN_HOUR = 0.10
BURST_HOURS = 3
BURST_SHARE = 1 / 3
SILENT = 0.2
NOTICE_S = 120
BACK_S = (300, 3600)
BACK_MEAN_S = 900


def back_after(chance: random.Random) -> int:
    return round(min(max(chance.expovariate(1 / BACK_MEAN_S), BACK_S[0]), BACK_S[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--machines", type=int, default=16)
    parser.add_argument("--hours", type=int, default=24)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    machines = range(1, options.machines)
    wishes = []
    for machine in machines:
        at = 0.0
        while (at := at + chance.expovariate(ALONE_AN_HOUR / 3600)) < options.hours * 3600:
            wishes.append((at, machine))
    at = 0.0
    while (at := at + chance.expovariate(1 / (BURST_HOURS * 3600))) < options.hours * 3600:
        for machine in chance.sample(machines, round(len(machines) * BURST_SHARE)):
            wishes.append((at, machine))
    print("machine,notice_s,gone_s,back_s")
    back = dict.fromkeys(machines, 0.0)
    for at, machine in sorted(wishes):
        if at < back[machine]:
            continue  # it is away
        gone = at + (0 if chance.random() < SILENT else NOTICE_S)
        back[machine] = gone + back_after(chance)
        print(f"{machine},{at:.0f},{gone:.0f},{back[machine]:.0f}")


if __name__ == "__main__":
    main()
