#!/usr/bin/python3
"""Writes centered_clip.json: CenteredClip as the papers print it, in double precision by numpy.

Nothing here is shared with the C++ code but the formula: median start, weights, stop at eps.
"""
import json
import pathlib

import numpy


def weighted_median(column, weights):
    order = numpy.argsort(column, kind="stable")
    below = numpy.cumsum(weights[order])
    return column[order][numpy.searchsorted(below, below[-1] / 2)]


def centered_clip(x, w, tau, iterations, eps):
    v = numpy.array([weighted_median(x[:, i], w) for i in range(x.shape[1])])
    made = 0
    for made in range(1, iterations + 1):
        d = x - v
        length = numpy.linalg.norm(d, axis=1)
        clip = numpy.minimum(1.0, tau / numpy.maximum(length, 1e-300))
        s = ((w * clip)[:, None] * d).sum(axis=0) / w.sum()
        v = v + s
        if numpy.linalg.norm(s) <= eps * tau:
            break
    return v, made


def main():
    draw = numpy.random.default_rng(44)
    cases = []
    for name, members, elements, tau, attack in (
        ("sixteen, seven flipped by -1000", 16, 37, 1.0, -1000.0),
        ("sixteen, none attacks, wide tau", 16, 37, 100.0, 1.0),
        ("seven, three to one side", 7, 130, 0.5, -10.0),
        ("three", 3, 64, 0.25, 5.0),
        ("one alone", 1, 20, 1.0, 1.0),
    ):
        centre = draw.normal(size=elements) * 0.3
        x = centre + draw.normal(size=(members, elements)) * 0.1
        liars = (members - 1) * 7 // 15 if attack != 1.0 else 0
        x[:liars] *= attack
        x = x.astype(numpy.float32).astype(numpy.float64)
        weights = numpy.ones(members)
        if members == 7:
            weights = numpy.array([8.0, 16, 8, 24, 3, 8, 16])
        v, made = centered_clip(x, weights, tau, 500, 1e-6)
        cases.append({"name": name, "tau": tau, "weights": weights.tolist(), "iterations": made,
                      "vectors": x.tolist(), "result": v.tolist()})
    path = pathlib.Path(__file__).parent / "centered_clip.json"
    path.write_text(json.dumps({"cases": cases}) + "\n")


if __name__ == "__main__":
    main()
