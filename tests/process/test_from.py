"""A new run that begins with what an earlier one learned (dedloc host --from)."""

from __future__ import annotations

import harness
from harness import ProcessTest, run_text


class From(ProcessTest):
    def test_a_finished_run_goes_on_as_a_new_one_with_other_settings(self) -> None:
        first = self.host(self.write("run.toml", run_text(steps=40, peak=0.05)), name="first")
        self.assertEqual(first.end(), harness.OK, first.errors())
        losses = [event["fields"]["loss"] for event in first.events("step")]
        self.assertLess(losses[-1], losses[0] / 2)

        longer = self.write("longer.toml", run_text(peak=0.02))
        refused = self.dedloc("host", longer, "--resume", str(first.directory), "--dir",
                              str(self.folder / "refused"))
        self.assertEqual(refused.returncode, harness.DIFFERENT_RUN, refused.stderr)
        self.expect_sentence(refused.stderr, "--from", "stop.steps: 0 here, 40 there")

        second = self.running_host(longer, name="second", more=("--from", str(first.directory)))
        guest = self.join(second.join_string(), "guest")
        self.until_shared_steps(5, second, guest)
        self.end_with_one_state(second, guest)
        steps = second.events("step")
        self.assertEqual(steps[0]["fields"]["step"], 1)
        loss = next(loss for step in steps if (loss := step["fields"]["loss"]) is not None)
        self.assertLess(loss, 1.5 * losses[-1])
        self.assertNotEqual(second.last_words()["run_hash"], first.last_words()["run_hash"])
        told = second.events("started_from")[0]["text"]
        self.assertIn("of step 40", told)
        self.assertIn("the optimizer's moments are taken, too", told)

    def test_another_model_and_half_a_wish_are_refused(self) -> None:
        first = self.host(self.write("run.toml", run_text(steps=2)), name="first")
        self.assertEqual(first.end(), harness.OK, first.errors())
        other = self.write("other.toml", run_text(model="bowl-17"))
        for words, parts in ((["host", other, "--from", str(first.directory)],
                              ("4096 parameters", "17 and 0")),
                             (["host", "--from", str(first.directory)], ("needs its run file",)),
                             (["host", other, "--from", str(self.folder / "nothing")],
                              ("there is no folder",))):
            peer = harness.Peer(self, words, self.folder / "second")
            self.assertEqual(peer.end(), harness.BAD_INPUT, peer.errors())
            self.expect_sentence(peer.errors(), *parts)


if __name__ == "__main__":
    harness.main()
