"""Bad input: one clear sentence each, the documented exit code, and nothing lost."""

from __future__ import annotations

import base64
import hashlib
import json
import socket

import harness
from harness import ProcessTest, free_port, run_text


class BadInput(ProcessTest):
    def test_unknown_key(self) -> None:
        text = run_text().replace("target =", "tarjet =")
        line = next(i for i, word in enumerate(text.splitlines(), 1) if "tarjet" in word)
        path = self.write("run.toml", text)
        for words in (("check", path), ("host", path)):
            done = self.dedloc(*words)
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, f"run.toml:{line}:1:", "'batch.tarjet'",
                                 "did you mean 'batch.target'")

    def test_more_threads_than_the_machine_is_for(self) -> None:
        path = self.write("run.toml", run_text())
        for words in (("check", path), ("host", path)):
            done = self.dedloc(*words, "--threads", "1000")
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.assertIn("this machine has", done.stderr)

    def test_wrong_value(self) -> None:
        cases = {"target = 16": ('target = "many"', "'batch.target' must be a whole number"),
                 'kind = "synthetic"': ('kind = "alchemy"', "there is no task 'alchemy'"),
                 'model = "bowl"': ('model = "jug"', "task.model"),
                 "micro = 2": ("micro = 32", "'batch.micro' (32) must not exceed"),
                 'name = "process-test"\n': ("", "'name' is missing")}
        for old, (new, sentence) in cases.items():
            self.assertIn(old, run_text())
            done = self.dedloc("check", self.write("run.toml", run_text().replace(old, new)))
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, sentence)

    def test_no_run_file(self) -> None:
        done = self.dedloc("host", str(self.folder / "nowhere.toml"))
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr, "nowhere.toml", "No such file")

    def test_wrong_usage(self) -> None:
        """The message says what is wrong, and which help says more."""
        cases = {("joni",): ("no command 'joni'", "did you mean 'join'", "`dedloc --help`"),
                 ("tokenizer", "trian"): ("no command 'trian'", "'train'", "tokenizer --help`"),
                 (): ("say what to do", "`dedloc --help`"),
                 ("join",): ("string is missing", "dedloc invite", "`dedloc join --help`"),
                 ("export", "somewhere"): ("--to is missing", "`dedloc export --help`"),
                 ("host", "--nonsense"): ("--nonsense", "`dedloc host --help`")}
        for words, sentences in cases.items():
            done = self.dedloc(*words)
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, *sentences)

    def test_resume_with_another_run_file(self) -> None:
        """The difference is told field by field, and the checkpoint is still good afterwards."""
        host = self.host(self.write("run.toml", run_text(steps=4, checkpoint_every=2)))
        self.assertEqual(host.end(), harness.OK, host.errors())
        other = self.write("other.toml", run_text(steps=4, checkpoint_every=2, target=64, peak=0.5))
        done = self.dedloc("host", other, "--resume", str(host.directory), "--dir",
                           str(self.folder / "again"))
        self.assertEqual(done.returncode, harness.DIFFERENT_RUN, done.stderr)
        self.expect_sentence(done.stderr, "batch.target: 64 here, 16 there",
                             "schedule.peak: 0.5 here, 0.01 there")
        self.assertEqual(self.dedloc("eval", str(host.directory)).returncode, harness.OK)

    def test_join_string_of_another_run(self) -> None:
        """The address of one run with the hash of another."""
        one = self.running_host(self.write("one.toml", run_text()), name="one")
        two = self.running_host(self.write("two.toml", run_text(target=32)), name="two")
        hash_of_two = next(field for field in unpacked(two.join_string()) if field[0] == RUN)
        joiner = self.join(replaced(one.join_string(), hash_of_two), "joiner")
        self.assertEqual(joiner.end(), harness.DIFFERENT_RUN, joiner.errors())
        self.expect_sentence(joiner.errors(), "another run")
        self.alive(one)
        self.alive(two)

    def test_wrong_secret(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()))
        wrong = (SECRET, bytes([SECRET << 3 | 2, 16]) + bytes(16))
        joiner = self.join(replaced(host.join_string(), wrong), "joiner")
        self.assertEqual(joiner.end(), harness.DIFFERENT_RUN, joiner.errors())
        self.expect_sentence(joiner.errors(), "secret")
        self.alive(host)

    def test_an_open_run_needs_no_secret_and_a_closed_one_its_own(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=40))
        closed = self.running_host(run, name="closed")
        stripped = without(closed.join_string(), SECRET)
        self.assertNotEqual(stripped, closed.join_string())
        joiner = self.join(stripped, "joiner")
        self.assertEqual(joiner.end(), harness.DIFFERENT_RUN, joiner.errors())
        self.expect_sentence(joiner.errors(), "secret")
        self.alive(closed)
        closed.stop_for_good()
        host = self.running_host(run, name="open", more=("--open",))
        string = host.join_string()
        self.assertEqual(without(string, SECRET), string, "there is no secret in it")
        guest = self.join(string, "guest")
        self.until("they train together", lambda: self.alive(guest) and any(
            event["fields"]["contributors"] == 2 for event in host.events("step")))

    def test_missing_data_set(self) -> None:
        if not self.has_libtorch():
            self.skipTest("this dedloc was built without libtorch: its task needs no data set")
        text = self.dedloc("init", "vision_classifier", "-o", "-").stdout
        path = self.write("run.toml", text)
        host = self.host(path, more=("--data", str(self.folder / "nothing-here")))
        self.assertEqual(host.end(), harness.DATA_MISSING, host.errors())
        self.expect_sentence(host.errors(), "dataset-fashion-mnist", "nothing-here")

    def test_port_in_use(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            host = self.host(self.write("run.toml", run_text()), listen=address)
            self.assertEqual(host.end(), harness.PORT, host.errors())
            self.expect_sentence(host.errors(), str(taken.getsockname()[1]))

    def test_no_address(self) -> None:
        host = self.host(self.write("run.toml", run_text()), listen="here")
        self.assertEqual(host.end(), harness.BAD_INPUT, host.errors())
        self.expect_sentence(host.errors(), "'here'")

    def test_garbled_join_string(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()))
        good = host.join_string()
        middle = len(good) // 2
        flipped = good[:middle] + ("q" if good[middle] != "q" else "p") + good[middle + 1:]
        for bad in (flipped, good[:-7], "dedloc1", "hello", "x" * 20_000):
            done = self.dedloc("join" if bad != "hello" else "watch", bad)
            self.assertEqual(done.returncode, harness.BAD_INPUT, f"{bad}: {done.stderr}")
            self.expect_sentence(done.stderr, "join string")
        self.alive(host)

    def test_unreachable_join_string(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()))
        join_string = host.join_string()
        host.stop_for_good()
        joiner = self.join(join_string, "joiner")
        self.assertEqual(joiner.end(50), harness.UNREACHABLE, joiner.errors())
        self.expect_sentence(joiner.errors(), "127.0.0.1", "private addresses", "dedloc invite")

    def test_json_says_so_too(self) -> None:
        """However early it fails, the last line of standard output is an object."""
        nobody = str(self.folder / "nobody")
        cases = {("host", nobody): "nobody", ("host",): "which run to host",
                 ("join", "hello"): "not a join string", ("assist", "hello"): "not a join string",
                 ("join", f"@{nobody}"): "nobody", ("check", "--network", "hello"): "join string"}
        for words, sentence in cases.items():
            done = self.dedloc(*words, "--json")
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
            self.expect_sentence(done.stderr, sentence)
            said = json.loads(done.stdout)
            self.assertFalse(said["ok"])
            self.assertIn(sentence, said["error"])

    def test_a_network_check_that_reaches_nobody_is_no_success(self) -> None:
        host = self.host(self.write("run.toml", run_text()), listen=f"127.0.0.1:{free_port()}")
        self.until("the host is there", lambda: self.alive(host) and host.join_string())
        join_string = host.join_string()
        host.stop_for_good()
        done = self.dedloc("check", "--network", join_string, "--listen", "127.0.0.1:0",
                           "--no-port-mapping", "--json")
        self.assertEqual(done.returncode, harness.UNREACHABLE, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["ok"], said["reachability"]), (False, "unreached"))
        self.assertIn("could be reached", said["error"])

    def test_labelled_text_that_is_none(self) -> None:
        files = {"classification": (("text,topic\nwaves,sea\nhills\n", "line 3",
                                     "label is missing"),
                                    ("text\nwaves\nhills\n", "line 1", "no label"),
                                    ("waves\nhills\n", "line 1", "no header")),
                 "ner": (("Anna PERSON\nsings O\n", "line 1", "is not IOB2", "B-TYPE"),
                         ("Anna O\nMaria I-PER\n", "line 2", "an entity begins with B-PER"),
                         ("Anna\nsings\n", "line 1", "has no label"))}
        for task, cases in files.items():
            for text, *words in cases:
                path = self.write("labelled.txt", text)
                done = self.dedloc("finetune", "nowhere", "--task", task, "--data", path)
                self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
                self.expect_sentence(done.stderr, "labelled.txt", *words)
        path = self.write("labelled.csv", "text,label\nwaves,sea\nhills,land\n")
        done = self.dedloc("finetune", "nowhere", "--task", "classification", "--data", path,
                           "--split", "names")
        self.assertEqual(done.returncode, harness.BAD_INPUT, done.stderr)
        self.expect_sentence(done.stderr, "--split names is for --task ner")

    def test_a_build_without_libtorch_names_the_scripts_that_make_one_with_it(self) -> None:
        if self.has_libtorch():
            self.skipTest("this dedloc has libtorch")
        text = self.dedloc("init", "vision_classifier", "-o", "-").stdout
        host = self.host(self.write("run.toml", text))
        self.assertEqual(host.end(), harness.BAD_INPUT, host.errors())
        self.expect_sentence(host.errors(), "./demo.sh", "./gpu.sh")

    def test_identity_in_use(self) -> None:
        run = self.write("run.toml", run_text())
        host = self.running_host(run)
        second = self.host(run)  # in the same folder
        self.assertEqual(second.end(), harness.IDENTITY_IN_USE, second.errors())
        self.expect_sentence(second.errors(), "in use", str(host.directory))
        step = host.step()
        self.until_step(step + 3, host)


# ---- taking join strings apart: src/dedloc/run/join_string.h says how they are made -----------

PREFIX = "dedloc1"
RUN, SECRET = 1, 2  # fields

Field = tuple[int, bytes]  # its number; key, size and value as they stand in the message


def unpacked(join_string: str) -> list[Field]:
    text = join_string.removeprefix(PREFIX)
    message = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-4]
    fields, at = [], 0
    while at < len(message):
        begin = at
        key, at = varint(message, at)
        value, at = varint(message, at)
        if key & 7 == 2:  # with a size
            at += value
        fields.append((key >> 3, message[begin:at]))
    return fields


def varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def replaced(join_string: str, field: Field) -> str:
    return packed([field if own[0] == field[0] else own for own in unpacked(join_string)])


def without(join_string: str, number: int) -> str:
    return packed([field for field in unpacked(join_string) if field[0] != number])


def packed(fields: list[Field]) -> str:
    message = b"".join(data for _, data in fields)
    checked = message + hashlib.sha256(message).digest()[:4]
    return PREFIX + base64.urlsafe_b64encode(checked).decode().rstrip("=")


if __name__ == "__main__":
    harness.main()
