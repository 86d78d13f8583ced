"""TensorBoard and Weights & Biases get the event log's numbers of a loop."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

import dedloc

from test_loop import Loop


class FakeRun:
    """As much of a wandb.Run as the logger uses."""

    def __init__(self):
        self.metrics, self.logged = [], []

    def define_metric(self, name, **options):
        self.metrics.append((name, options))

    def log(self, data):
        self.logged.append(data)


class CurvesTest(Loop):
    def logged(self, kind: str) -> list[dict]:
        lines = Path(self.folder, "host", "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [event["fields"] for event in map(json.loads, lines) if event["kind"] == kind]

    def trained(self, prepare, steps: int = 3, **settings):
        run, opt = self.host(prepare, stop=dict(steps=steps), **settings)
        while not run.finished:
            self.step(opt)
        run.leave()
        return run

    def test_wandb_is_told_every_step_once_and_events_can_still_be_read(self):
        told = FakeRun()

        def prepare(run):
            run.evaluate(lambda _: (0.5, 0.25), every=2)
            dedloc.callbacks.wandb_logger(run, told)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # what the logger raises is one
            run = self.trained(prepare)
        events = list(run.events)
        run.close()
        self.assertEqual(told.metrics, [("global_step", {}),
                                        ("*", {"step_metric": "global_step"})])
        steps = [data for data in told.logged if "loss" in data]
        logged = self.logged("step")
        self.assertEqual([data["global_step"] for data in steps], [1, 2, 3])
        for data, fields in zip(steps, logged):
            for name in ("loss", "samples", "seconds", "learning_rate", "contributors"):
                self.assertEqual(data[name], fields[name], name)
            self.assertEqual(data["samples_per_s"], fields["samples"] / fields["seconds"])
            self.assertEqual(data["peers"], 1)
        self.assertIn({"evaluation/accuracy": 0.25, "evaluation/loss": 0.5, "global_step": 2},
                      told.logged)
        self.assertEqual(sum(event["kind"] == "step" for event in events), 3)

    def test_the_present_run_is_taken_and_none_is_said(self):
        module = types.ModuleType("wandb")
        module.run = None
        with mock.patch.dict(sys.modules, wandb=module):
            with self.assertRaisesRegex(dedloc.BadInput, "wandb.init"):
                self.host(dedloc.callbacks.wandb_logger)
            module.run = FakeRun()
            self.trained(dedloc.callbacks.wandb_logger)
        self.assertEqual(len(module.run.logged), 3)

    def test_training_goes_on_where_wandb_fails(self):
        broken = FakeRun()
        broken.log = mock.Mock(side_effect=ConnectionError("of the test"))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            run = self.trained(lambda run: dedloc.callbacks.wandb_logger(run, broken))
        self.assertEqual(run.global_step, 3)
        self.assertTrue(any("of the test" in str(one.message) for one in warned))

    @unittest.skipUnless(importlib.util.find_spec("wandb"), "wandb is not installed")
    def test_wandb_itself_takes_it_offline(self):
        import wandb
        with mock.patch.dict(os.environ, WANDB_MODE="offline", WANDB_SILENT="true",
                             WANDB_DIR=self.folder):
            with wandb.init(project="dedloc") as logged:
                self.trained(lambda run: dedloc.callbacks.wandb_logger(run))
                self.assertEqual(logged.summary["global_step"], 3)
                self.assertEqual(logged.summary["loss"], self.logged("step")[-1]["loss"])
        self.assertTrue(list(Path(self.folder, "wandb").glob("offline-run-*/*.wandb")))

    def test_tensorboard_has_a_file_with_each_step(self):
        run = self.trained(lambda run: None, tensorboard=Path(self.folder, "curves"))
        run.close()
        files = list(Path(self.folder, "curves").iterdir())
        self.assertEqual(len(files), 1)
        self.assertTrue(files[0].name.startswith("events.out.tfevents."))
        contents = files[0].read_bytes()
        self.assertEqual(contents.count(b"learning_rate"), 3)  # tests/oracles/tensorboard reads it


if __name__ == "__main__":
    unittest.main()
