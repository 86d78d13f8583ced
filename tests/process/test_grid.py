"""More trainers than a group holds, in real processes: groups, collectors, one certificate."""

from __future__ import annotations

import os
import signal

import harness
from harness import Peer, ProcessTest, run_text


class Grid(ProcessTest):
    def five(self) -> list[Peer]:
        """Five trainers in groups of at most two."""
        text = run_text(model="bowl-20000", gradient_ms=40, target=60)
        run = self.write("run.toml", text.replace("[averaging]", "[averaging]\ngroup_max = 2"))
        host = self.running_host(run)
        trainers = [host, *(self.join(host.join_string(), f"peer-{i}") for i in range(1, 5))]
        self.until("a plan of all five is a grid", lambda: any(
            "5 members" in event["text"] and "groups" in event["text"]
            for peer in trainers for event in peer.events("plan")))
        return trainers

    def test_a_kill_of_a_member_costs_no_step_and_the_others_stay_equal(self) -> None:
        trainers = self.five()
        self.until_step(max(peer.step() for peer in trainers) + 5, *trainers)
        victim = trainers.pop()
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.end()
        step = max(trainer.step() for trainer in trainers)
        self.until_step(step + 10, *trainers)
        for trainer in trainers:
            for kind in ("refused_input", "new_branch"):
                self.assertEqual(trainer.events(kind), [])
        hashes: dict[int, set[str]] = {}
        for trainer in trainers:
            for event in trainer.events("step"):
                fields = event["fields"]
                hashes.setdefault(fields["step"], set()).add(fields["state_hash"])
        self.assertTrue(all(len(of_step) == 1 for of_step in hashes.values()), hashes)
        audit = self.dedloc("audit", *(str(trainer.directory) for trainer in trainers),
                            "--json")
        self.assertEqual(audit.returncode, harness.OK, audit.stdout + audit.stderr)


if __name__ == "__main__":
    harness.main()
