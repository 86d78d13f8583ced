"""`dedloc assist`: reduces parts, shows up with its role, leaves in order, and may be killed."""

from __future__ import annotations

import json
import os
import signal

import harness
from harness import Peer, ProcessTest, run_text

# Plans count on this at most; nothing is slowed down. So slow that what a busy machine measures of
# the other's line is still far more.
SLOW = ("--plan-up", "1", "--plan-down", "20")
FAST = ("--plan-up", "1000", "--plan-down", "1000")


class Assist(ProcessTest):
    def assisted(self, steps: int = 0, names: str = "") -> tuple[list[Peer], Peer]:
        """Three trainers whose lines are slow, as they say, and one that assists them."""
        run = self.write("run.toml",
                         run_text(model="bowl-20000", gradient_ms=40, target=24, steps=steps))
        host = self.running_host(run, name=f"host{names}", more=SLOW)
        trainers = [host, *(self.join(host.join_string(), f"peer-{i}{names}", more=SLOW)
                            for i in (1, 2))]
        return trainers, self.assist(host.join_string(), f"assist{names}", more=FAST)

    def test_a_kill_of_who_reduces_costs_no_step(self) -> None:
        trainers, assistant = self.assisted()
        # Once all three are there, a trainer that owned anything would only slow the others down.
        self.until("it reduces everything", lambda: any(
            event["fields"]["share"] > 0.9 for event in assistant.events("reduced")))
        os.kill(assistant.process.pid, signal.SIGKILL)
        assistant.end()
        step = max(trainer.step() for trainer in trainers)
        self.until_step(step + 10, *trainers)
        for trainer in trainers:
            for kind in ("round_failed", "samples_dropped", "new_branch"):
                self.assertEqual(trainer.events(kind), [])
        audit = self.dedloc("audit", *(str(trainer.directory) for trainer in trainers),
                            "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stdout + audit.stderr)
        gains = [event["text"] for trainer in trainers for event in trainer.events("plan")
                 if "aggregators take" in event["text"]]
        self.assertTrue(gains)
        self.assertIn("predicted instead of", gains[0])

    def test_ctrl_c_leaves_in_order_and_says_what_was_done(self) -> None:
        trainers, assistant = self.assisted()
        self.until("parts are reduced", lambda: len(assistant.events("reduced")) >= 2)
        watched = self.dedloc("watch", trainers[0].join_string(), "--seconds", "2", "--json")
        view = json.loads(watched.stdout.splitlines()[-1])
        roles = {peer["peer"]: peer for peer in view["peers"]}
        assistant.signal(signal.SIGINT)
        self.assertEqual(assistant.end(), harness.OK, assistant.errors())
        said = assistant.last_words()
        self.assertEqual(roles[said["peer"]]["role"], "aggregator")
        self.assertEqual(int(roles[said["peer"]]["state_hash"], 16), 0)
        self.assertTrue(said["ok"] and said["left"])
        self.assertGreaterEqual(said["rounds"], 2)
        self.assertGreater(said["memory_bytes_most"], 0)
        self.assertFalse((assistant.directory / "votes").exists())
        self.until("the host sees it leave", lambda: trainers[0].events("peer_left"))
        self.assertEqual(trainers[0].events("peer_lost"), [])

    def test_a_run_can_be_planned_from_what_its_peers_measured(self) -> None:
        trainers, assistant = self.assisted()
        self.until("parts are reduced", lambda: len(assistant.events("reduced")) >= 2)
        printed = self.dedloc("watch", trainers[0].join_string(), "--seconds", "3", "--print-plan")
        self.assertEqual(printed.returncode, harness.OK, printed.stderr)
        planned = self.dedloc("plan", self.write("plan.toml", printed.stdout), "--json")
        self.assertEqual(planned.returncode, harness.OK, printed.stdout + planned.stderr)
        plan = json.loads(planned.stdout)
        self.assertEqual(plan["elements"], 20000)
        self.assertEqual(plan["peers_count"], 4, printed.stdout)
        self.assertGreater(plan["computing"]["samples_per_s"], 0)
        self.assertIn("aggregator", [peer["role"] for peer in plan["peers"]])

    def test_the_end_of_the_run_ends_it(self) -> None:
        # The trainers of a quiet machine may be at the end before the assistant has begun; then
        # the same again with more steps.
        for steps in (25, 100, 400):
            trainers, assistant = self.assisted(steps, f"-of-{steps}")
            for trainer in trainers:
                self.until("the run ends", lambda one=trainer: one.process.poll() is not None)
            if trainers[0].events("peer_joined") and assistant.events("reduced"):
                break
        for peer in (*trainers, assistant):
            self.assertEqual(peer.end(), harness.OK, peer.errors())
        said = assistant.last_words()
        self.assertEqual((said["left"], said["step"]), (False, steps))

    def test_others_are_invited_on_its_machine_too(self) -> None:
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        assistant = self.assist(host.join_string(), "assist")
        self.until("it has a join string",
                   lambda: self.alive(assistant) and assistant.join_string())
        done = self.dedloc("invite", "--dir", str(assistant.directory), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        invited = json.loads(done.stdout)
        self.assertEqual(invited["run"], "process-test")
        guest = self.join(invited["join_string"], "guest")
        self.until("the guest has joined", lambda: self.alive(guest) and guest.step() > 0)
        assistant.signal(signal.SIGINT)
        self.assertEqual(assistant.end(), harness.OK, assistant.errors())
        self.assertFalse((assistant.directory / "join.txt").exists())

    def test_who_is_given_no_part_hears_so(self) -> None:
        """One trainer alone has nothing to send."""
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=5)))
        assistant = self.assist(host.join_string(), "assist", view="--plain")
        self.until("it is said", lambda: self.alive(assistant) and
                   "the trainers' lines are not what limits them" in assistant.out.read_text())
        said = [line for line in harness.whole_lines(assistant.out) if "no plan has" in line]
        self.assertEqual(len(said), 1, said)
        self.assertIn("join STRING`", said[0])

    def test_a_bad_join_string_is_said(self) -> None:
        done = self.dedloc("assist", "dedloc1garbage")
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr)


if __name__ == "__main__":
    harness.main()
