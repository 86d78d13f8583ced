"""People type these: lists of addresses, join strings that are not for everybody's eyes, and a
host says something of the string that it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest.mock

import harness
from harness import DEDLOC, ProcessTest, free_port, run_text

# A peer id that no identity of these tests has.
STRANGER = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"


class CommandLine(ProcessTest):
    def test_a_command_that_computes_nothing_loads_no_libtorch(self) -> None:
        traced = subprocess.run([harness.DEDLOC], env={"LD_TRACE_LOADED_OBJECTS": "1"},
                                stdout=subprocess.PIPE, text=True, check=True, timeout=20)
        self.assertIn("libcrypto", traced.stdout)
        self.assertNotIn("torch", traced.stdout)

    def test_a_run_file_that_leads_nowhere_is_refused_before_libtorch_is_loaded(self) -> None:
        """By the program alone: where a trainer is missing it says so only of what it would do."""
        alone = self.folder / "dedloc"
        shutil.copy(DEDLOC, alone)
        misspelt = self.write("misspelt.toml", run_text().replace("target", "targt"))
        whole = self.write("run.toml", run_text())
        for words, said in (([], "say which run to host"),
                            ([str(self.folder / "none.toml")], "none.toml"),
                            ([misspelt], "batch.targt"),
                            ([whole, "--set", "batch.target=none"], "batch.target")):
            done = self.dedloc("host", *words, program=str(alone))
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, said)
        if self.has_libtorch():
            done = self.dedloc("host", whole, program=str(alone))
            self.assertEqual(done.returncode, harness.CANNOT_COMPUTE, done.stderr)

    def test_an_address_takes_nothing_of_what_follows_it(self) -> None:
        """The run file and the join string stand behind the options as well as before them."""
        run = self.write("run.toml", run_text())
        host = self.host("", more=("--listen", "127.0.0.1:0", "--announce", "127.0.0.1:9", run))
        self.until("the host is there", lambda: self.alive(host) and host.join_string())
        string = host.join_string()
        # The address that is announced leads nowhere, and that is how we see it; the string comes
        # after --relay, --listen and --announce.
        relay = f"/ip4/127.0.0.1/tcp/{free_port()}/p2p/{STRANGER}"
        done = self.dedloc("join", "--dir", str(self.folder / "guest"), "--relay", relay, string,
                           "--threads", "1", "--quiet")
        self.assertEqual(done.returncode, harness.UNREACHABLE, done.stderr)
        self.assertIn("127.0.0.1/tcp/9", done.stderr)
        done = self.dedloc("relay", "--dir", str(self.folder / "relay"), "--listen", "127.0.0.1:0",
                           "--announce", "127.0.0.1:9", "hello")
        self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
        self.expect_sentence(done.stderr, "this is not a join string")

    def test_help_has_groups_two_examples_each_and_the_exit_codes_once(self) -> None:
        whole = self.dedloc("--help").stdout
        self.assertEqual(whole.count("Exit codes:"), 1)
        groups = re.findall(r"^([A-Z][^:\n]*):\n((?:  .*\n)+)", whole, re.MULTILINE)
        commands = {name: title for title, lines in groups if title not in
                    ("Options", "Examples", "Exit codes")
                    for name in re.findall(r"^  ([a-z]+) ", lines, re.MULTILINE)}
        self.assertGreater(len(commands), 20)
        self.assertEqual([name for name, title in commands.items() if title == "Subcommands"], [])
        below = [f"{name} {one}" for name in ("data", "service", "tokenizer") for one in
                 re.findall(r"^  ([a-z]+) ", self.dedloc(name, "--help").stdout.split(
                     "Subcommands:")[1].split("Examples:")[0], re.MULTILINE)]
        for name in [*commands, *below]:
            text = self.dedloc(*name.split(), "--help").stdout
            examples = re.findall(r"^  (dedloc .*)", text.split("Examples:\n")[-1], re.MULTILINE)
            self.assertEqual(len(examples), 2, text)
            self.assertNotIn("Exit codes", text)
            for example in examples:
                self.assertTrue(example.startswith(f"dedloc {name}"), example)
                for option in re.findall(r" (--[a-z-]+)", example):
                    known = text if name not in ("data", "service", "tokenizer") else "".join(
                        self.dedloc(*one.split(), "--help").stdout for one in below)
                    self.assertIn(option, known.split("Examples:")[0] if name in commands and
                                  name not in ("data", "service", "tokenizer") else known, example)

    def test_repeated_addresses_all_count(self) -> None:
        ports = {free_port(), free_port()}
        words = [word for port in ports for word in ("--listen", f"127.0.0.1:{port}")]
        host = self.host(self.write("run.toml", run_text()), more=tuple(words))
        self.until("the host is there", lambda: self.alive(host) and host.join_string())
        done = self.dedloc("relay", "--dir", str(self.folder / "relay"), *words)
        self.assertEqual(done.returncode, harness.PORT, done.stderr)
        for port in ports:
            taken = self.dedloc("relay", "--dir", str(self.folder / f"relay-{port}"), "--listen",
                                f"127.0.0.1:{port}", "--seconds", "0.1")
            self.assertEqual(taken.returncode, harness.PORT, taken.stderr)

    def test_a_name_can_be_announced(self) -> None:
        port = free_port()
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=40)),
                                 listen=f"127.0.0.1:{port}",
                                 more=("--announce", f"localhost:{port}"))
        guest = self.join(host.join_string(), "guest")
        self.until("they train together", lambda: self.alive(guest) and any(
            event["fields"]["members"] == 2 for event in host.events("step")))

    def test_who_names_no_folder_is_invited_to_and_is_itself_again(self) -> None:
        """Numbered folders below XDG_STATE_HOME: the host's is 1, the guest's 2, both times."""
        with unittest.mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder)):
            host = self.host(self.write("run.toml", run_text(gradient_ms=20)), dir_given=False)
            self.until("the host has a join string", lambda: self.alive(host)
                       and list(self.folder.glob("dedloc/*/1/join.txt")))
            run_folder = next(self.folder.glob("dedloc/*"))
            host.directory = run_folder / "1"
            words = []
            for turn in ("first", "again"):
                done = self.dedloc("invite", "--json")
                self.assertEqual(done.returncode, harness.OK, done.stderr)
                invited = json.loads(done.stdout)
                self.assertEqual((invited["run"], invited["directory"]),
                                 ("process-test", str(host.directory)))
                guest = self.join(invited["join_string"], turn, dir_given=False)
                guest.directory = run_folder / "2"
                self.until_step(host.step() + 3, guest)
                guest.signal(signal.SIGINT)
                self.assertEqual(guest.end(), harness.OK, guest.errors())
                words.append(guest.last_words())
        self.assertEqual([word["directory"] for word in words], [str(run_folder / "2")] * 2)
        self.assertEqual(words[0]["peer"], words[1]["peer"])
        self.alive(host)

    def test_a_join_string_needs_not_be_an_argument(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()))
        path = self.write("join.txt", host.join_string() + "\n")
        for words, given in ((("watch", "-"), host.join_string() + "\n"),
                             (("watch", f"@{path}"), ""),
                             (("relay", "--listen", "127.0.0.1:0", "--dir",
                               str(self.folder / "relay"), "-"), host.join_string())):
            done = subprocess.run([DEDLOC, *words, "--seconds", "1", "--json"], input=given,
                                  capture_output=True, text=True, timeout=40, check=False)
            self.assertEqual(done.returncode, harness.OK, done.stderr)
        for words in (("join", "-"), ("assist", "-"), ("check", "--network", "-")):
            done = self.dedloc(*words)
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, "from standard input, and there is none")
        done = self.dedloc("join", f"@{self.folder}/nothing")
        self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
        self.expect_sentence(done.stderr, "cannot read", "nothing")

    def test_a_relay_that_does_not_answer_is_told_and_so_is_where_the_string_leads(self) -> None:
        relay = f"/ip4/127.0.0.1/tcp/{free_port()}/p2p/{STRANGER}"
        words = ["--log", "info", "host", self.write("run.toml", run_text()), "--relay", relay]
        began = time.monotonic()
        host = harness.Peer(self, words, self.folder / "host", view="--plain")
        self.until("the string is in its file", lambda: self.alive(host) and host.join_string())
        in_file = time.monotonic() - began
        self.until("it is said that it leads nowhere",
                   lambda: "leads only into this machine's own network" in host.out.read_text(), 20)
        self.assertGreater(time.monotonic() - began, in_file + 3, "it was held back for the relay")
        self.until("the relay is tried again", lambda: host.errors().count("cannot be reached") > 2)
        warnings = [line for line in harness.whole_lines(host.err)
                    if "cannot be reached" in line and " W " in line]
        self.assertEqual(len(warnings), 1, host.errors())

    def test_what_is_meant_for_this_machine_is_shown_without_remark(self) -> None:
        host = harness.Peer(self, ["host", self.write("run.toml", run_text(steps=30))],
                            self.folder / "host", view="--plain")
        self.assertEqual(host.end(), harness.OK, host.errors())
        said = host.out.read_text()
        # Others have it where README says, whatever this one's path is.
        program = "build/release/bin/dedloc" if "/" in DEDLOC else DEDLOC
        self.assertIn(f"  {program} join dedloc1", said)
        self.assertNotIn("leads only", said)

    def test_a_quiet_host_prints_its_join_string_and_nothing_else(self) -> None:
        words = ("host", self.write("run.toml", run_text(steps=30)), "--listen", "127.0.0.1:0",
                 "--threads", "1", "--quiet")
        done = self.dedloc(*words, "--dir", str(self.folder / "host"))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertRegex(done.stdout, r"\Adedloc1[\w-]+\n\Z")
        done = self.dedloc(*words, "--dir", str(self.folder / "again"), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertTrue(json.loads(done.stdout)["ok"])

    def test_an_address_without_a_port_that_stays_is_told(self) -> None:
        run = self.write("run.toml", run_text(steps=1))
        for listen, told in (("127.0.0.1:0", True), (f"127.0.0.1:{free_port()}", False)):
            host = self.host(run, name=f"host-{told}", listen=listen,
                             more=("--announce", "203.0.113.7:4001"))
            self.assertEqual(host.end(), harness.OK, host.errors())
            self.assertEqual("add --listen 0.0.0.0:4001" in host.errors(), told, host.errors())

    def test_the_check_measures_the_speed(self) -> None:
        done = self.dedloc("check", self.write("run.toml", run_text(gradient_ms=10)), "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        said = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(said["samples_per_second"], 1)
        self.assertLess(said["samples_per_second"], 201)  # two samples in 10 ms at most
        self.assertGreater(said["memory_in_use_bytes"], 1 << 20)
        text = self.dedloc("check", str(self.folder / "run.toml")).stdout
        self.assertIn("  speed  some", text)
        self.assertIn("s a global step alone", text)
        self.assertIn("  memory ", text)

    def test_output_that_cannot_be_written_is_told_and_else_nothing_changes(self) -> None:
        def run(*words: str, **files) -> subprocess.CompletedProcess:
            files = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **files}
            return subprocess.run([DEDLOC, *words], text=True, timeout=40, check=False, **files)

        with open("/dev/full", "wb") as full:
            for words in (("version",), ("version", "--json"), ("init", "synthetic", "-o", "-")):
                done = run(*words, stdout=full)
                self.assertEqual(done.returncode, harness.DISK, done.stderr)
                self.expect_sentence(done.stderr, "standard output", "No space left")
            done = run("eval", str(self.folder / "nowhere"), stderr=full)
            self.assertEqual(done.returncode, harness.BAD_INPUT)
        reader, writer = os.pipe()
        os.close(reader)
        done = run("version", stdout=writer)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (harness.OK, ""))

    def test_the_version_is_an_option_too(self) -> None:
        said = [subprocess.run([DEDLOC, word], capture_output=True, text=True, timeout=40,
                               check=True).stdout for word in ("--version", "version")]
        self.assertEqual(*said)
        self.assertTrue(said[0].startswith("dedloc "), said[0])

    def test_an_output_that_is_closed_is_no_file_of_the_peer(self) -> None:
        folder = self.folder / "host"
        words = [DEDLOC, "host", self.write("run.toml", run_text(steps=3)), "--dir", str(folder),
                 "--listen", "127.0.0.1:0", "--threads", "1", "--plain"]
        done = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", *words],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=40, check=False)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.assertEqual((folder / "identity.lock").read_bytes(), b"")
        for path in folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"join dedloc1", path.read_bytes(), path)

    def test_what_is_to_be_typed_next_is_the_program_as_it_was_called(self) -> None:
        done = self.dedloc("init", "synthetic", "-o", str(self.folder / "new.toml"))
        self.assertIn(f"Next: {os.fspath(DEDLOC)} host", done.stdout)


if __name__ == "__main__":
    harness.main()
