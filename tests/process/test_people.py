"""The guides for organisers and volunteers do what they say: their commands are run, in order."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import harness
from harness import DEDLOC, ProcessTest, run_text

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guides"


def commands(page: str) -> list[list[str]]:
    """The lines of its boxes of shell commands."""
    boxes = re.findall(r"^```sh\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)
    return [shlex.split(line) for box in boxes for line in box.splitlines()]


class PeopleGuides(ProcessTest):
    def begin(self, words: list[str], port: int = 0) -> subprocess.Popen:
        """A peer of a guide; it goes on beside the next commands."""
        assert words[0] == "dedloc"
        err = open(self.folder / f"peer{len(self.begun)}.err", "wb")
        process = subprocess.Popen(
            [DEDLOC, *words[1:], "--listen", f"127.0.0.1:{port}", "--quiet", "--threads", "1"],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        err.close()
        self.begun.append(process)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def run_line(self, words: list[str]) -> str:
        """Runs a line that ends by itself; `> file` is the shell's."""
        target = None
        if ">" in words:
            target = words[words.index(">") + 1]
            words = words[:words.index(">")]
        done = subprocess.run([DEDLOC, *words[1:]], cwd=self.folder, capture_output=True, text=True,
                              timeout=40, check=False)
        self.assertEqual(done.returncode, harness.OK, f"{words}: {done.stderr}")
        if target:
            (self.folder / target).write_text(done.stdout)
        return done.stdout

    def has_joined(self, folder: str) -> bool:
        return (self.folder / folder / "join.txt").exists()

    def test_the_organisers_and_the_volunteers_guide_are_true(self) -> None:
        self.begun: list[subprocess.Popen] = []
        self.write("run.toml", run_text(gradient_ms=20, checkpoint_every=2))
        organise = commands("organise.md")
        self.assertEqual([line[1] for line in organise],
                         ["host", "invite", "invite", "members", "report", "revoke", "host"])
        # The guide leaves the port to dedloc, which takes the same one again where nobody says one.
        port = harness.free_port()
        host = self.begin(organise[0], port)
        self.until("the organiser's string", lambda: self.has_joined("run"))
        for line in organise[1:3]:
            self.run_line(line)
        volunteer = commands("volunteer.md")
        self.assertEqual([line[1] for line in volunteer], ["join"])
        (self.folder / "string.txt").write_text((self.folder / "ana.txt").read_text())
        member = self.begin(volunteer[0])
        self.until("the volunteer is in", lambda: self.has_joined("mine"))
        self.until("both made a step", lambda: " of 2 peers" in
                   (self.folder / "run" / "events.jsonl").read_text())
        said = self.run_line(organise[3])
        self.assertIn("Ana", said)
        self.assertIn("people with", self.run_line(organise[4]))
        page = (self.folder / "run" / "report" / "report.html").read_text()
        saved = (self.folder / "run" / "report" / "run.html").read_text()
        self.assertIn('<script type="application/json" id="saved">', saved)
        self.assertIn("Ana", page)
        self.run_line(organise[5])
        for process in (member, host):
            process.terminate()
            self.assertEqual(process.wait(30), harness.OK)
        # The run is resumed, and the volunteer comes back with the old string, which is used up.
        self.assertFalse(self.has_joined("run"))
        self.begin(organise[6], port)
        self.until("the resumed organiser", lambda: self.has_joined("run"))
        self.begin(volunteer[0])
        self.until("the volunteer is back", lambda: self.has_joined("mine"), seconds=60)


class Admission(ProcessTest):
    def test_bad_input_of_organisers_is_said_in_a_sentence(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=20))
        host = self.running_host(run, more=("--admit", "list"))
        folder = ("--dir", str(host.directory))
        names = self.write("names.txt", "Ana\nBen\nAna\n")
        self.expect_sentence(self.dedloc("invite", "--list", names, *folder).stderr,
                             "line 3", "Ana is there twice")
        self.expect_sentence(self.dedloc("revoke", "Zoe", *folder).stderr, "Zoe", "was invited")
        self.assertEqual(self.dedloc("invite", "Ana", *folder).returncode, harness.OK)
        self.assertEqual(self.dedloc("revoke", "Ana", *folder).returncode, harness.OK)
        self.expect_sentence(self.dedloc("revoke", "Ana", *folder).stderr, "revoked already")
        self.expect_sentence(self.dedloc("invite", "Ana", *folder).stderr, "was revoked")

    def test_members_are_known_when_the_organiser_has_stopped(self) -> None:
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)),
                                 more=("--admit", "list"))
        folder = ("--dir", str(host.directory))
        self.assertEqual(self.dedloc("invite", "Ana", *folder).returncode, harness.OK)
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        done = self.dedloc("members", *folder)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertIn("Ana", done.stdout)
        open_run = self.host(self.write("open.toml", run_text(steps=1)), name="open")
        self.assertEqual(open_run.end(), harness.OK, open_run.errors())
        done = self.dedloc("members", "--dir", str(open_run.directory))
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr, "--admit list")

    def test_a_service_starts_the_program_itself_however_it_was_called(self) -> None:
        """By a name that is looked up in PATH, from a folder where there is no such file."""
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        program = Path(DEDLOC).resolve()
        peer = self.folder / "peer"
        with open(self.folder / "service.err", "wb") as err:
            service = subprocess.Popen(
                [program.name, "service", "run", host.join_string(), "--dir", str(peer),
                 "--threads", "1"], cwd=self.folder, stdin=subprocess.DEVNULL, stderr=err,
                env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        self.until("its peer has joined", lambda: (peer / "join.txt").exists())
        service.terminate()
        self.assertEqual(service.wait(30), harness.OK)

    def test_a_token_of_another_run_is_said_to_be_one(self) -> None:
        strings = []
        for number in (1, 2):
            run = self.write(f"run{number}.toml", run_text(gradient_ms=20, target=14 + 2 * number))
            host = self.running_host(run, name=f"host{number}", more=("--admit", "list"))
            folder = ("--dir", str(host.directory))
            strings.append((self.dedloc("invite", "Ana", *folder).stdout.strip(),
                            self.dedloc("invite", *folder).stdout.strip()))
        # The watcher redeems the code: its folder has a token, and no run file.
        self.dedloc("watch", strings[0][0], "--dir", str(self.folder / "member"), "--seconds", "1",
                    "--json")
        other = self.join(strings[1][1], "member")
        self.assertNotEqual(other.end(), harness.OK)
        self.expect_last_sentence(other.errors(), "the token is of run")
        member = self.join(strings[0][0], "member")
        self.until_step(1, member)
        member.process.terminate()
        self.assertEqual(member.end(), harness.OK)
        other = self.join(strings[1][1], "member")
        self.assertEqual(other.end(), harness.BAD_INPUT)
        self.expect_last_sentence(other.errors(), "the folder of a peer of another run")

    def test_a_personal_string_shows_the_run_before_and_after_its_peer_takes_part(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=20))
        host = self.running_host(run, more=("--admit", "list"))
        string = self.dedloc("invite", "Ana", "--dir", str(host.directory)).stdout.strip()
        folder = str(self.folder / "ana")
        watch = ("watch", string, "--dir", folder, "--seconds", "2", "--json")
        view = json.loads(self.dedloc(*watch).stdout.splitlines()[-1])
        self.assertEqual(len(view["peers"]), 1)
        # The watcher has redeemed the code; the peer of the same folder has its token.
        member = self.join(string, "ana")
        self.until_step(1, member)
        self.assertEqual(self.dedloc(*watch).returncode, harness.IDENTITY_IN_USE)
        # Elsewhere the code is used up.
        done = self.dedloc("watch", string, "--dir", str(self.folder / "else"), "--seconds", "2")
        self.assertNotEqual(done.returncode, harness.OK)
        self.expect_last_sentence(done.stderr, "was used on another device")

    def test_a_system_without_systemd_is_said_to_be_one(self) -> None:
        if Path("/run/systemd/system").exists():
            self.skipTest("systemd runs this system")
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        done = self.dedloc("service", "install", host.join_string())
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr, "not run by systemd", "dedloc service run")
        done = self.dedloc("service", "install", host.join_string(), "--hours", "night")
        self.expect_sentence(done.stderr, "22:00-07:00")


if __name__ == "__main__":
    harness.main()
