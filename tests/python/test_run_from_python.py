"""A run that is made in Python, without a file: settings, learning rates."""

from __future__ import annotations

import unittest
import warnings

import dedloc
import torch

from test_dedloc import Folder

nn = torch.nn
LOOPBACK = ["/ip4/127.0.0.1/tcp/0"]


class RunFromPython(Folder):
    def opened(self, model, directory="host", **settings):
        settings = {"target_batch": 8, "averaging": dict(codec="fp32"), **settings}
        run = dedloc.host(directory=f"{self.folder}/{directory}", listen=LOOPBACK, **settings)
        self.addCleanup(run.close, 0.0)
        return run, dedloc.Optimizer(run, model)

    def joined(self, run, model, directory="guest", **options):
        other = dedloc.join(run.join_string, directory=f"{self.folder}/{directory}",
                            listen=LOOPBACK, patience=20)
        self.addCleanup(other.close, 0.0)
        return other, dedloc.Optimizer(other, model, **options)

    @staticmethod
    def same(model):
        torch.manual_seed(1)
        return model

    def as_torch(self, make_model, make_optimizer, steps=3, rtol=2e-5, **settings):
        """Both make the same steps."""
        torch.manual_seed(2)
        ours = make_model()
        theirs = make_model()
        theirs.load_state_dict(ours.state_dict())
        _, optimizer = self.opened(ours, **settings)
        plain = make_optimizer(theirs)
        for _ in range(steps):
            inputs = torch.randn(8, 4)
            ours(inputs).square().mean().backward()
            self.assertTrue(optimizer.step(samples=8))
            plain.zero_grad()
            theirs(inputs).square().mean().backward()
            plain.step()
        for one, other in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(one, other, rtol=rtol, atol=1e-6)


class SettingsTest(RunFromPython):
    def test_settings_are_the_optimizers_that_pytorch_has(self):
        for name, settings, make in (
            ("sgd", dict(kind="sgd", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0),
             lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)),
            ("adamw", dict(kind="adamw", lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.0),
             lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-6,
                                         weight_decay=0.0)),
        ):
            with self.subTest(name):
                self.as_torch(lambda: nn.Linear(4, 3), make, optimizer=settings)
                dedloc.close_all(0.0)

    def test_the_run_file_is_saved_and_hosts_the_same_run(self):
        run, _ = self.opened(nn.Linear(4, 1), optimizer=dict(kind="lamb", lr=0.5), run_name="mine",
                             stop=dict(steps=7), local=None)
        path = f"{self.folder}/run.toml"
        run.save_run_file(path)
        self.assertIn('name = "mine"', open(path).read())
        again = dedloc.host(path, directory=f"{self.folder}/again", listen=LOOPBACK)
        self.addCleanup(again.close, 0.0)
        dedloc.Optimizer(again, nn.Linear(4, 1))
        self.assertEqual(again.run_file, run.run_file)
        other, _ = self.joined(run, nn.Linear(4, 1))
        self.assertEqual(other.run_file, run.run_file)

    def test_what_is_wrong_in_them_is_said(self):
        for settings, words in (
            (dict(optimizer="sgd"), "target_batch"),
            (dict(target_batch=8, optimizer="adagrad"), "adagrad"),
            (dict(target_batch=8, optimizer=dict(kind="sgd", mementum=0.9)), "mementum"),
            (dict(target_batch=8, optimizer=dict(lr=0.1), schedule=0.1), "twice"),
            (dict(target_batch=8, optimizer=dict(momentum=float("nan"))), "momentum"),
            (dict(target_batch=8, optimizer=dict(lr=torch.tensor([1, 2]))), "lr|peak|number"),
            (dict(target_batch=0, optimizer="sgd"), "batch.target"),
            (dict(target_batch=8, stop=3), "stop"),
        ):
            with self.subTest(words), self.assertRaisesRegex((dedloc.BadInput, ValueError), words):
                run = dedloc.host(directory=f"{self.folder}/x", listen=LOOPBACK, **settings)
                dedloc.Optimizer(run, nn.Linear(4, 1))
        with self.assertRaisesRegex(dedloc.BadInput, "run file"):
            dedloc.host(self.run_file(), target_batch=8)


class LearningRateTest(RunFromPython):
    def test_the_present_learning_rate_is_shown(self):
        run, optimizer = self.opened(
            nn.Linear(4, 1), optimizer="sgd",
            schedule=dict(kind="linear", peak=1.0, warmup_steps=2, total_steps=4))
        shown = []
        for _ in range(4):
            shown.append(optimizer.param_groups[0]["lr"])
            self.assertEqual(run.learning_rate, shown[-1])
            optimizer.param_groups[0]["params"][0].grad = torch.zeros(1, 4)
            optimizer.step(samples=8)
        self.assertEqual(shown, [0.5, 1.0, 1.0, 0.5])

    def test_a_scheduler_that_is_left_in_the_script_has_no_effect_and_says_so(self):
        run, optimizer = self.opened(nn.Linear(4, 1), optimizer="sgd", schedule=0.25)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                optimizer.param_groups[0]["params"][0].grad = torch.zeros(1, 4)
                optimizer.step(samples=8)
                scheduler.step()
                self.assertEqual(scheduler.get_last_lr(), [0.25])
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)
        self.assertTrue(any("[schedule]" in str(warning.message) for warning in caught))
        rates = [e["fields"]["learning_rate"] for e in run.events if e["kind"] == "step"]
        self.assertEqual(rates, [0.25] * 3)


if __name__ == "__main__":
    unittest.main()
