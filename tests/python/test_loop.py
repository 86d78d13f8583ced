"""Loops of one's own do more than hand in gradients: they evaluate, compute numbered samples and
check others', make local updates and delayed steps, invite, call experts, and keep a peer's files.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
import unittest
from pathlib import Path
from typing import Callable

import dedloc
import torch
from torch import nn

from test_dedloc import LOOPBACK, PROGRAM, Folder, start

needs_program = unittest.skipUnless(PROGRAM, "no dedloc program was built")


class Loop(Folder):
    def host(self, prepare: Callable = lambda run: None, model=None, directory="host", given=None,
             **settings):
        settings = {"target_batch": 8, "optimizer": dict(kind="sgd", momentum=0.0),
                    "schedule": 0.1, "averaging": dict(codec="fp32"), **settings}
        run = dedloc.host(directory=f"{self.folder}/{directory}", listen=LOOPBACK, **settings)
        return self.opened(run, prepare, model, given)

    def join(self, host: dedloc.Run, prepare: Callable = lambda run: None, model=None,
             directory="guest", given=None, **options):
        run = dedloc.join(options.pop("string", None) or host.join_string, listen=LOOPBACK,
                          directory=f"{self.folder}/{directory}", **options)
        return self.opened(run, prepare, model, given)

    def opened(self, run, prepare, model, given):
        prepare(run)
        model = nn.Linear(4, 1) if model is None else model
        self.addCleanup(run.close, 0.0)
        return run, dedloc.Optimizer(run, model, **(given or {}))

    def step(self, opt: dedloc.Optimizer, samples: int = 8) -> bool:
        loss = opt.model(torch.randn(samples, 4)).square().mean()
        loss.backward()
        return opt.step(loss, samples=samples)

    def together(self, *works: Callable[[], None]) -> None:
        """Each in a thread of its own; what one of them raises, this raises."""
        failures: list[BaseException] = []

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as failure:
                failures.append(failure)
        threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def trained_together(self, *opts: dedloc.Optimizer, samples: int = 8) -> None:
        """Until the run is over; then all leave."""
        def until_the_end(opt: dedloc.Optimizer) -> None:
            while not opt.run.finished:
                self.step(opt, samples)
            opt.run.leave()
        while any(len(opt.run.peers) < len(opts) for opt in opts):
            time.sleep(0.01)
        self.together(*(lambda opt=opt: until_the_end(opt) for opt in opts))

    def expect_one_state(self, *opts: dedloc.Optimizer) -> None:
        self.assertEqual(len({opt.run.state_hash for opt in opts}), 1)
        for ours, theirs in zip(opts[0].model.parameters(), opts[-1].model.parameters()):
            self.assertTrue(torch.equal(ours, theirs))


class EvaluateTest(Loop):
    def test_the_measure_travels_and_stops_the_run_like_anybodys(self):
        measured = []

        def measure(model):
            self.assertFalse(model.training)
            self.assertFalse(torch.is_grad_enabled())
            measured.append(model)
            return 0.25, 0.5 if len(measured) < 3 else 0.9
        run, opt = self.host(lambda run: run.evaluate(measure, every=2), target_batch=16,
                             stop=dict(accuracy=0.8))
        other, second = self.join(run)
        self.trained_together(opt, second)
        self.assertGreaterEqual(len(measured), 3)
        self.assertIs(measured[0], opt.model)
        self.assertTrue(opt.model.training)
        self.assertTrue(other.finished)
        events = [event["fields"] for event in run.events if event["kind"] == "evaluation"]
        self.assertEqual(events[-1]["accuracy"], 0.9)
        self.assertEqual([event["step"] % 2 for event in events[:2]], [0, 0])

    def test_others_see_the_measure(self):
        run, opt = self.host(lambda run: run.evaluate(lambda _: dict(loss=1.0, accuracy=0.75),
                                                      every=1))
        self.assertTrue(self.step(opt))  # alone, so that the turn is its own
        other, _ = self.join(run)
        while max(peer["accuracy"] for peer in other.peers) != 0.75:
            time.sleep(0.01)  # the alarm of Folder ends it

    def test_a_loss_alone_is_a_measure(self):
        run, opt = self.host(lambda run: run.evaluate(lambda _: torch.tensor(2.5), every=1))
        self.step(opt)
        fields = next(e["fields"] for e in run.events if e["kind"] == "evaluation")
        self.assertEqual((fields["loss"], fields["accuracy"]), (2.5, None))

    def test_what_it_raises_step_raises_and_training_goes_on(self):
        failing = [True]

        def measure(_):
            if failing:
                failing.pop()
                raise ZeroDivisionError("of the test")
            return 1.0
        run, opt = self.host(lambda run: run.evaluate(measure, every=1))
        with self.assertRaises(ZeroDivisionError):
            self.step(opt)
        self.assertTrue(self.step(opt))
        self.assertEqual(run.global_step, 2)

    def test_buffers_stay_and_changed_parameters_are_refused(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        spoils = []

        def measure(model):
            model.train()
            model(torch.randn(8, 4) + 100)
            if spoils:
                model[0].weight.mul_(2)
            return 1.0
        run, opt = self.host(lambda run: run.evaluate(measure, every=1), model=model)
        self.step(opt)
        self.assertLess(float(model[1].running_mean.abs().max()), 5)
        spoils.append(True)
        with self.assertRaisesRegex(dedloc.BadInput, "run's"):
            self.step(opt)

    def test_a_run_that_could_never_end_is_refused_and_it_comes_before_the_optimizer(self):
        with self.assertRaisesRegex(dedloc.Unsupported, "would never end"):
            self.host(stop=dict(accuracy=0.9))
        run, _ = self.host(directory="other")
        with self.assertRaisesRegex(dedloc.BadInput, "before"):
            run.evaluate(lambda _: 1.0)


ROBUST = dict(check=1.0, probation=1)


class SamplesTest(Loop):
    def function(self, model, seen: list, sign: float = 1.0) -> Callable:
        def samples(author: str, numbers: range) -> torch.Tensor:
            seen.append((author, numbers))
            rows = []
            for number in numbers:
                generator = torch.Generator().manual_seed(dedloc.sample_seed(author, number))
                rows.append(torch.randn(4, generator=generator))
            return sign * model(torch.stack(rows)).square().mean()
        return samples

    def test_a_host_without_samples_says_that_newcomers_would_never_weigh_anything(self):
        with self.assertRaisesRegex(dedloc.Unsupported, "newcomers .* would never weigh anything"):
            self.host(robust=ROBUST)

    def test_loops_with_samples_compute_them_by_themselves_and_check_newcomers(self):
        models = [nn.Linear(4, 1), nn.Linear(4, 1)]
        seen: list[list] = [[], []]
        given = [dict(samples=self.function(*both)) for both in zip(models, seen)]
        run, opt = self.host(model=models[0], given=given[0], robust=ROBUST, target_batch=16,
                             batch=dict(micro=4))
        other, second = self.join(run, model=models[1], given=given[1])
        ids = run.peer_id, other.peer_id

        def train(opt):
            while ids[1] not in {author for author, _ in seen[0]} or run.global_step < 4:
                opt.step(samples=4)
        self.together(lambda: train(opt), lambda: train(second))  # until it checked the newcomer
        self.assertEqual({author for author, _ in seen[0] + seen[1]} - set(ids), set())
        own = [number for author, numbers in seen[0] if author == ids[0] for number in numbers]
        self.assertEqual(own[:8], list(range(own[0], own[0] + 8)))
        events = [list(peer.events) for peer in (run, other)]
        hashes = [{event["fields"]["step"]: event["fields"]["state_hash"] for event in of
                   if event["kind"] == "step"} for of in events]
        self.expect_one_state_of_each_step(*hashes)
        self.assertFalse([event for of in events for event in of if event["kind"] == "order"])

    def expect_one_state_of_each_step(self, ours: dict, theirs: dict) -> None:
        both = set(ours) & set(theirs)
        self.assertTrue(both, "they shared no step")
        self.assertEqual([ours[step] for step in both], [theirs[step] for step in both])

    def test_own_gradients_take_their_numbers_too(self):
        model = nn.Linear(4, 1)
        function = self.function(model, [])
        run, opt = self.host(model=model, given=dict(samples=function), target_batch=16)
        before = run.next_sample
        function(run.peer_id, range(before, before + 8)).backward()
        self.assertFalse(opt.step(samples=8))
        self.assertEqual(run.next_sample, before + 8)
        self.assertTrue(opt.step(samples=8))
        self.assertEqual(run.next_sample, before + 16)

    def test_what_it_raises_step_raises(self):
        def samples(author, numbers):
            raise ZeroDivisionError("of the test")
        _, opt = self.host(given=dict(samples=samples))
        with self.assertRaises(ZeroDivisionError):
            opt.step(samples=8)

    def test_a_step_without_a_gradient_gives_what_backward_gives(self):
        torch.manual_seed(1)
        ours, plain = nn.Linear(4, 1), nn.Linear(4, 1)
        plain.load_state_dict(ours.state_dict())
        run, opt = self.host(model=ours, given=dict(samples=self.function(ours, [])))
        first = run.next_sample
        self.assertTrue(opt.step(samples=8))
        self.function(plain, [])(run.peer_id, range(first, first + 8)).backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.1 * parameter.grad
        for one, other in zip(ours.parameters(), plain.parameters()):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

    def test_seeds_of_samples_differ_and_are_the_same_everywhere(self):
        seeds = {dedloc.sample_seed(author, number) for author in "ab" for number in range(100)}
        self.assertEqual(len(seeds), 200)
        self.assertTrue(all(0 <= seed < 2**63 for seed in seeds))
        self.assertEqual(dedloc.sample_seed("a", 1), 7233372792604824834)


class StepsTest(Loop):
    def test_local_updates_step_within_and_end_with_one_state(self):
        models = [nn.Linear(4, 1), nn.Linear(4, 1)]
        local = dict(batch=8, optimizer=dict(kind="sgd", momentum=0.0), schedule=0.05)
        run, opt = self.host(model=models[0], target_batch=64, schedule=1.0, local=local,
                             stop=dict(steps=4))
        _, second = self.join(run, model=models[1])
        before = models[0].weight.detach().clone()
        self.step(opt)
        self.assertFalse(torch.equal(models[0].weight, before), "an inner step was made")
        self.assertEqual(run.global_step, 0)
        self.assertEqual(opt.param_groups[0]["lr"], 0.05)
        self.trained_together(opt, second)
        self.expect_one_state(opt, second)
        self.assertEqual(run.global_step, 4)

    def test_sparse_local_updates_beside_the_round_end_with_one_state(self):
        def model():
            torch.manual_seed(1)
            return nn.Sequential(nn.Linear(4, 900), nn.Tanh(), nn.Linear(900, 1))
        local = dict(batch=8, optimizer=dict(kind="adamw"), schedule=0.01)
        run, opt = self.host(model=model(), target_batch=64, schedule=0.7, local=local,
                             optimizer=dict(kind="sgd", momentum=0.9, nesterov=True),
                             averaging=dict(codec="sparse", delayed=True), stop=dict(steps=12))
        other, second = self.join(run, model=model())
        self.trained_together(opt, second)
        self.assertEqual(run.state_hash, other.state_hash)
        hashes = [{event["fields"]["step"]: event["fields"]["state_hash"] for event in each.events
                   if event["kind"] == "step"} for each in (run, other)]
        both = hashes[0].keys() & hashes[1].keys()
        self.assertGreaterEqual(len(both), 6)
        self.assertEqual([hashes[0][step] for step in both], [hashes[1][step] for step in both])

    def test_delayed_steps_are_loaded_later_and_end_with_one_state(self):
        run, opt = self.host(target_batch=16, averaging=dict(codec="fp32", delayed=True),
                             stop=dict(steps=6))
        _, second = self.join(run)
        self.trained_together(opt, second)
        self.expect_one_state(opt, second)
        steps = [event["fields"] for event in run.events if event["kind"] == "step"]
        self.assertEqual(len(steps), 6)

    def test_a_delayed_step_does_not_wait_for_the_average(self):
        """One call hands in, and returns while the step is made; a later one loads it."""
        run, opt = self.host(averaging=dict(codec="fp32", delayed=True))
        before = opt.model.weight.detach().clone()
        loaded = [self.step(opt)]
        self.assertTrue(torch.equal(opt.model.weight, before) or loaded[0])
        while not any(loaded):
            loaded.append(self.step(opt, samples=1))
        self.assertFalse(torch.equal(opt.model.weight, before))


class FilesTest(Loop):
    def lines(self, directory: str) -> list[dict]:
        text = Path(self.folder, directory, "events.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def test_a_peer_keeps_its_event_log_and_a_join_string_while_it_takes_part(self):
        run, opt = self.host(stop=dict(steps=2))
        file = Path(self.folder, "host", "join.txt")
        self.assertEqual(file.read_text(encoding="utf-8").strip(), run.join_string)
        while not run.finished:
            self.step(opt)
        run.close()
        self.assertFalse(file.exists())
        kinds = [line["kind"] for line in self.lines("host")]
        self.assertEqual(kinds[0], "run_started")
        self.assertEqual(kinds.count("step"), 2)
        self.assertIn("run_over", kinds)
        self.assertEqual(kinds[-1], "left")

    def test_a_failure_that_ends_training_is_the_logs_word(self):
        _, opt = self.host(target_batch=10**6)
        with self.assertRaises(dedloc.CannotCompute):
            for _ in range(70):
                (opt.model(torch.rand(8, 4)) * math.nan).mean().backward()
                opt.step(samples=8)
        dedloc.close_all(0.0)
        failed = [line for line in self.lines("host") if line["kind"] == "training_failed"]
        self.assertEqual(len(failed), 1)
        self.assertIn("not finite", failed[0]["text"])

    @needs_program
    def test_the_program_reads_the_log_and_the_string(self):
        run, opt = self.host(stop=dict(steps=3))
        string = Path(self.folder, "host", "join.txt").read_text(encoding="utf-8").strip()
        watched = start(PROGRAM, "watch", string, "--seconds", "8", "--json",
                        "--dir", f"{self.folder}/watcher")
        while watched.poll() is None:
            if not run.finished and len(run.peers) > 0:
                self.step(opt)
            time.sleep(0.05)
        self.assertIn(run.peer_id, self.ends(watched))
        run.close()


class InvitationTest(Loop):
    @needs_program
    def test_a_python_host_lets_in_by_invitation(self):
        run, opt = self.host(admit="list", target_batch=16, stop=dict(steps=2))
        self.assertTrue(Path(self.folder, "host", "authority.key").exists())
        with self.assertRaises(dedloc.Denied):
            self.join(run, directory="stranger", patience=10)
        invited = subprocess.run([PROGRAM, "invite", "ada", "--dir", f"{self.folder}/host"],
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual(invited.returncode, 0, invited.stderr)
        string = next(word for word in invited.stdout.split() if word.startswith("dedloc1"))
        _, second = self.join(run, string=string)
        self.trained_together(opt, second)
        self.expect_one_state(opt, second)


class ExpertsTest(Loop):
    WIDTH = 16
    EXPERTS = dict(grid="2x2", width=WIDTH, hidden=16, best=2, rate=0.003)

    def network(self, run: dedloc.Run) -> nn.Module:
        mixture = dedloc.experts.RemoteMixture(run, self.WIDTH, (2, 2), best=2)
        return nn.Sequential(nn.Linear(2, self.WIDTH), mixture, nn.Linear(self.WIDTH, 1))

    def opened_with_experts(self, run: dedloc.Run):
        torch.manual_seed(4)
        self.addCleanup(run.close, 0.0)
        return run, dedloc.Optimizer(run, self.network(run))

    def hosted(self, **settings):
        run = dedloc.host(target_batch=32, optimizer="adamw", schedule=0.01, experts=self.EXPERTS,
                          directory=f"{self.folder}/host", listen=LOOPBACK, **settings)
        return self.opened_with_experts(run)

    def server(self, run: dedloc.Run, name: str) -> subprocess.Popen:
        process = start(PROGRAM, "serve", run.join_string, "--dir", f"{self.folder}/{name}",
                        "--json")
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def loss(self, model: nn.Module, samples: int = 32) -> torch.Tensor:
        inputs = torch.rand(samples, 2) * 2 - 1
        return nn.functional.mse_loss(model(inputs).squeeze(1), inputs[:, 0] * inputs[:, 1])

    def until_served(self, model: nn.Module) -> None:
        with torch.no_grad():
            while not torch.isfinite(model(torch.rand(1, 2))).all():
                pass  # each pass waits for experts; the alarm of Folder ends it

    @needs_program
    def test_experts_of_a_serving_process_learn_with_the_trunk(self):
        run, opt = self.hosted()
        server = self.server(run, "server")
        self.until_served(opt.model)
        losses = []
        while run.global_step < 150:
            loss = self.loss(opt.model)
            loss.backward()
            self.assertTrue(opt.model[1].gate.weight.grad.any())
            losses.append(float(loss.detach()))
            opt.step(loss, samples=32)
        self.assertLess(sum(losses[-20:]), 0.8 * sum(losses[:20]), losses)
        run.close()
        server.terminate()
        said = json.loads(self.ends(server).splitlines()[-1])
        self.assertGreater(said["updates"], 0)

    @needs_program
    def test_two_peers_call_the_same_experts_and_end_with_one_trunk(self):
        run, opt = self.hosted(stop=dict(steps=10), batch=dict(micro=1))
        self.server(run, "server")
        self.until_served(opt.model)
        other, second = self.opened_with_experts(dedloc.join(
            run.join_string, directory=f"{self.folder}/guest", listen=LOOPBACK))

        def train(opt):
            while not opt.run.finished:
                self.loss(opt.model, 16).backward()
                opt.step(samples=16)
            opt.run.leave()
        self.together(lambda: train(opt), lambda: train(second))
        self.expect_one_state(opt, second)

    def test_what_is_wrong_is_said(self):
        run, opt = self.hosted()
        bad = dedloc.experts.RemoteMixture(run, self.WIDTH, (2, 2), best=5)
        with self.assertRaisesRegex(dedloc.BadInput, "best"):
            bad(torch.zeros(1, self.WIDTH))
        closed = opt.model[1]
        run.close(0.0)
        with self.assertRaises(dedloc.DedlocError):
            closed(torch.zeros(1, self.WIDTH))
        with self.assertRaisesRegex(dedloc.BadInput, "width"):
            dedloc.host(target_batch=8, experts=dict(grid="2x2"))
        with self.assertRaisesRegex(dedloc.BadInput, "'gird'"):
            dedloc.host(target_batch=8, experts=dict(gird="2x2", width=4))


if __name__ == "__main__":
    unittest.main()
