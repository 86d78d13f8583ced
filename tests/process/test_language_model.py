"""A language model by two peers; text from the run that is under way and from a checkpoint, also
behind HTTP (docs/serve-api.md); out in Hugging Face's format and in again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from pathlib import Path

import harness
from harness import ProcessTest
from served import Served, events_of, listening_addresses

RUN = """name = "language-test"
[task]
kind = "language_model"
model = "llama"
data = "text:words"
[language_model]
vocabulary = 400
hidden = 32
layers = 2
heads = 4
key_value_heads = 2
feed_forward = 64
positions = 64
[text]
tokenizer = "kind=byte_bpe&vocabulary=400"
length = 32
held_out_samples = 4
window_samples = 64
[batch]
target = 16
micro = 2
[optimizer]
kind = "adamw"
[schedule]
peak = 0.003
[averaging]
quorum_timeout = "3s"
[checkpoint]
every = 5
[evaluate]
every = 0
"""


class LanguageModel(ProcessTest):
    seconds_max = 235
    starting_s = 100  # libtorch, text and tokenizer, on a crowded machine

    def setUp(self) -> None:
        super().setUp()
        if not self.has_libtorch():
            self.skipTest("this dedloc has no libtorch")
        words = self.folder / "data/words"
        words.mkdir(parents=True)
        for document in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))[:12]:
            shutil.copy(document, words / (document.stem + ".txt"))
        self.data = ("--data", str(self.folder / "data"))

    def cache(self, name: str) -> dict[str, str]:
        """A user with a cache of their own, empty at first."""
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder / name)}

    def run_file(self, more: str = "") -> str:
        return self.write("run.toml", RUN + more)

    def sampled(self, *words: str) -> dict:
        done = self.dedloc("sample", *words, "--prompt", "The run", "--tokens", "8", "--json",
                           seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def export(self, peer: harness.Peer, folder: Path) -> None:
        done = self.dedloc("export", str(peer.directory), "--to", str(folder),
                           seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.OK, done.stderr)

    def test_two_peers_train_a_language_model_that_writes(self) -> None:
        host = self.running_host(self.run_file(), more=self.data, env=self.cache("a"))
        guest = self.join(host.join_string(), "guest", more=self.data, env=self.cache("b"))
        self.until_shared_steps(6, host, guest, seconds=self.starting_s)
        live = self.sampled(host.join_string())
        self.assertGreater(live["step"], 0)
        self.assertGreater(live["texts"][0]["tokens"], 0)
        self.end_with_one_state(host, guest)
        again = [self.sampled(str(host.directory), "--seed", "7") for _ in range(2)]
        self.assertEqual(again[0]["texts"], again[1]["texts"])

    def serve(self, model: str, *more: str) -> Served:
        served = Served(self.folder, model, *more)
        self.peers.append(served)
        served.where(self.starting_s)
        return served

    def test_a_served_model_writes_what_sample_writes(self) -> None:
        host = self.host(self.run_file("[stop]\nsteps = 5\n"), more=self.data, env=self.cache("a"))
        self.assertEqual(host.end(self.starting_s), harness.OK, host.errors())
        sampled = self.sampled(str(host.directory), "--temperature", "0")["texts"][0]
        served = self.serve(str(host.directory))
        asked = {"prompt": "The run", "max_tokens": 8, "temperature": 0}
        status, whole = served.post("/v1/completions", **asked)
        self.assertEqual(status, 200, whole)
        self.assertEqual(whole["choices"][0]["text"], sampled["text"])
        self.assertEqual(whole["usage"]["completion_tokens"], sampled["tokens"])
        self.assertEqual(whole["usage"]["prompt_tokens"], sampled["prompt_tokens"])
        sampled = self.sampled(str(host.directory), "--seed", "3")["texts"][0]
        _, drawn = served.post("/v1/completions", prompt="The run", max_tokens=8, seed=3)
        self.assertEqual(drawn["choices"][0]["text"], sampled["text"])
        self.check_streams(served, asked, whole)
        self.check_refusals(served)
        self.assertEqual(listening_addresses(served.where()["port"]), {"0100007F"})
        served.signal(signal.SIGINT)
        self.assertEqual(served.end(), harness.OK, served.errors())

    def check_streams(self, served: Served, asked: dict, whole: dict) -> None:
        for more in ({}, {"temperature": 1, "seed": 3}):
            body = {**asked, **more, "stream": True}
            _, first = served.post("/v1/completions", **{**body, "stream": False})
            _, _, text = served.ask("POST", "/v1/completions", body)
            events = events_of(text)
            self.assertEqual("".join(event["choices"][0]["text"] for event in events),
                             first["choices"][0]["text"])
            self.assertEqual(events[-1]["choices"][0]["finish_reason"],
                             first["choices"][0]["finish_reason"])
        chat = {**asked, "messages": [{"role": "user", "content": asked["prompt"]}]}
        del chat["prompt"]
        _, answered = served.post("/v1/chat/completions", **chat)
        self.assertEqual(answered["choices"][0]["message"]["content"], whole["choices"][0]["text"])

    def check_refusals(self, served: Served) -> None:
        status, told = served.post("/v1/completions", prompt="word " * 500)
        self.assertEqual(status, 400)
        self.assertEqual(told["error"]["code"], "context_length_exceeded")
        self.assertIn("64", told["error"]["message"])  # the model's context
        status, _, _ = served.ask("POST", "/v1/completions", {"prompt": "a" * (1 << 20)})
        self.assertEqual(status, 413)
        status, _, _ = served.ask("POST", "/v1/completions", "{")
        self.assertEqual(status, 400)
        status, _, _ = served.ask("GET", "/v1/models", headers={"Host": "evil.example"})
        self.assertEqual(status, 421)
        # A client that goes away in the middle leaves the model to others.
        with socket.create_connection(("127.0.0.1", served.where()["port"])) as leaver:
            body = json.dumps({"prompt": "a", "max_tokens": 60, "stream": True})
            head = ("POST /v1/completions HTTP/1.1", "Host: 127.0.0.1",
                    "Content-Type: application/json", f"Content-Length: {len(body)}", "", body)
            leaver.sendall("\r\n".join(head).encode())
            leaver.recv(64)
        self.assertEqual(served.post("/v1/completions", prompt="a")[0], 200)

    def test_a_run_is_followed_while_it_goes_on(self) -> None:
        host = self.running_host(self.run_file(), more=self.data, env=self.cache("a"))
        self.until_step(2, host, seconds=self.starting_s)
        served = self.serve(host.join_string(), "--refresh", "1")
        first = served.where()["step"]
        self.until("a newer state is served", lambda: self.alive(served) and
                   served.model()["dedloc"]["step"] > first, self.starting_s)
        status, answer = served.post("/v1/completions", prompt="The run")
        self.assertEqual(status, 200)
        self.assertTrue(answer["system_fingerprint"].startswith("step-"))
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        self.until("it says that the run is gone",
                   lambda: self.alive(served) and "no newer state" in served.errors(), 90)
        self.assertEqual(served.post("/v1/completions", prompt="The run")[0], 200)

    def test_a_page_of_answers_is_written_at_each_newer_state(self) -> None:
        prompts = self.write("prompts.txt", "The run\n\n# none\nA peer\n")
        host = self.running_host(self.run_file(), more=(*self.data, "--watch-prompts", prompts),
                                 env=self.cache("a"))
        self.until_step(2, host, seconds=self.starting_s)
        pages = self.folder / "pages"
        watch = Served(self.folder, host.join_string(), "--watch-prompts", prompts, "--refresh",
                       "1", "--tokens", "4", "--out", str(pages), command="sample", name="watch")
        self.peers.append(watch)
        steps = lambda folder: {path.name for path in folder.glob("step-*.txt")}
        self.until("two pages of the run", lambda: self.alive(watch) and
                   len(steps(pages)) >= 2 and (pages / "latest.txt").exists(), self.starting_s)
        # The host writes one at each checkpoint by itself.
        sheets = host.directory / "prompts"
        self.until("a page of a checkpoint", lambda: self.alive(host) and
                   (sheets / "latest.txt").exists(), self.starting_s)
        for folder in (pages, sheets):
            page = (folder / "latest.txt").read_text()
            self.assertIn((folder / "latest.txt").resolve().name.removeprefix("step-")
                          .removesuffix(".txt"), page.splitlines()[0])
            for prompt in ("The run", "A peer"):
                self.assertIn(f"---- {prompt}\n{prompt}", page)
        for peer in (watch, host):
            peer.signal(signal.SIGINT)
            self.assertEqual(peer.end(), harness.OK, peer.errors())

    def test_other_machines_need_the_token(self) -> None:
        host = self.host(self.run_file("[stop]\nsteps = 1\n"), more=self.data, env=self.cache("a"))
        self.assertEqual(host.end(self.starting_s), harness.OK, host.errors())
        served = self.serve(str(host.directory), "--address", "0.0.0.0")
        told = served.where()
        self.assertEqual(listening_addresses(told["port"]), {"00000000"})
        self.assertIn(told["token"], told["address"])
        self.assertEqual(served.ask("GET", "/v1/models")[0], 401)
        bearer = {"Authorization": f"Bearer {told['token']}"}
        self.assertEqual(served.ask("GET", "/v1/models", headers=bearer)[0], 200)
        done = self.dedloc("serve-api", str(host.directory), "--address", "nowhere", "--port", "0",
                           seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.BAD_INPUT)
        self.expect_sentence(done.stderr, "nowhere")

    def test_weights_go_out_and_begin_another_run(self) -> None:
        stop = "[stop]\nsteps = 3\n"
        host = self.host(self.run_file(stop), more=self.data, env=self.cache("a"))
        self.assertEqual(host.end(self.starting_s), harness.OK, host.errors())
        out = self.folder / "out"
        done = self.dedloc("export", str(host.directory), "--to", str(out),
                           seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        done = self.dedloc("init", "language_model", "--weights", str(out), "-o",
                           str(self.folder / "next.toml"))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        settings = ["task.data=text:words", "stop.steps=1", "text.length=32", "batch.target=4",
                    "batch.micro=2", "text.window_samples=64"]
        options = [word for setting in settings for word in ("--set", setting)]
        begun = self.host(str(self.folder / "next.toml"), "next",
                          more=("--weights", str(out), *options, *self.data),
                          env=self.cache("c"))
        self.assertEqual(begun.end(self.starting_s), harness.OK, begun.errors())
        self.assertEqual((out / "tokenizer.json").read_bytes(),
                         next((self.folder / "next/files").iterdir()).read_bytes())

    def test_a_run_sends_its_data_to_those_who_agree(self) -> None:
        shared = ("--set", "data.source=run", "--set", "data.licence=Apache-2.0", "--set",
                  "data.origin=the documents of dedloc")
        silent = self.host(self.run_file(), "silent", more=("--set", "data.source=run", *self.data))
        self.assertEqual(silent.end(self.starting_s), harness.BAD_INPUT, silent.errors())
        self.expect_sentence(silent.errors(), "data.licence", "CC0-1.0")
        host = self.running_host(self.run_file(), more=(*shared, *self.data), env=self.cache("a"))
        unasked = self.join(host.join_string(), "unasked", env=self.cache("b"))
        self.assertEqual(unasked.end(self.starting_s), harness.BAD_INPUT, unasked.errors())
        self.expect_sentence(unasked.errors(), "Apache-2.0", "documents of dedloc", "--yes")
        self.assertFalse((unasked.directory / "data").exists())
        guest = self.join(host.join_string(), "guest", more=("--yes",), env=self.cache("c"))
        self.until_shared_steps(4, host, guest, seconds=self.starting_s)
        fetched = lambda: sum(path.stat().st_size for path in (guest.directory / "data").rglob("*")
                              if path.is_file())
        text = sum(path.stat().st_size for path in (self.folder / "data/words").iterdir())
        self.until("the guest has one copy", lambda: self.alive(guest) and fetched() >= text, 60)
        self.end_with_one_state(host, guest)
        self.assertGreater(guest.last_words()["data_bytes_received"], 0)
        self.assertGreaterEqual(host.last_words()["data_bytes_sent"],
                                guest.last_words()["data_bytes_received"])
        done = self.dedloc("eval", str(guest.directory), "--json", seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.OK, done.stderr)

    def test_adapters_are_trained_beside_weights_that_newcomers_fetch(self) -> None:
        host = self.host(self.run_file("[stop]\nsteps = 1\n"), more=self.data)
        self.assertEqual(host.end(self.starting_s), harness.OK, host.errors())
        base, out = self.folder / "base", self.folder / "out"
        self.export(host, base)
        adapted = self.running_host(
            self.run_file(), name="adapted", env=self.cache("a"),
            more=("--weights", str(base), "--lora", "rank=2,alpha=4", *self.data))
        guest = self.join(adapted.join_string(), "guest", more=self.data, env=self.cache("b"))
        self.until_shared_steps(3, adapted, guest, seconds=self.starting_s)
        self.end_with_one_state(adapted, guest)
        self.export(guest, out)
        adapter = json.loads((out / "adapter/adapter_config.json").read_text())
        self.assertEqual((adapter["r"], adapter["target_modules"]), (2, ["q_proj", "v_proj"]))
        weights, adapters = out / "model.safetensors", out / "adapter/adapter_model.safetensors"
        self.assertLess(adapters.stat().st_size, weights.stat().st_size / 4)
        self.assertNotEqual(weights.read_bytes(), (base / "model.safetensors").read_bytes())
        without = self.host(self.run_file(), "without", more=("--lora", "rank=2", *self.data))
        self.assertEqual(without.end(self.starting_s), harness.BAD_INPUT, without.errors())
        self.expect_sentence(without.errors(), "--weights FOLDER")

    def test_bad_weights_and_prompts_are_named(self) -> None:
        host = self.host(self.run_file("[stop]\nsteps = 1\n"), more=self.data)
        self.assertEqual(host.end(self.starting_s), harness.OK, host.errors())
        long = self.dedloc("sample", str(host.directory), "--prompt", "word " * 200,
                           seconds=self.starting_s)
        self.assertEqual(long.returncode, harness.BAD_INPUT)
        self.expect_sentence(long.stderr, "tokens", "sees 64")
        out = self.folder / "out"
        done = self.dedloc("export", str(host.directory), "--to", str(out),
                           seconds=self.starting_s)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        weights = out / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1000])
        cut = self.host(self.run_file(), "cut", more=("--weights", str(out), *self.data))
        self.assertEqual(cut.end(self.starting_s), harness.BAD_INPUT, cut.errors())
        self.expect_sentence(cut.errors(), "cut short", "model.safetensors")
        other = self.host(self.run_file(), "other",
                          more=("--set", "language_model.layers=3", "--weights", str(out),
                                *self.data))
        self.assertEqual(other.end(self.starting_s), harness.BAD_INPUT, other.errors())
        self.expect_sentence(other.errors(), "language_model.layers is 3", "2 in the weights")


if __name__ == "__main__":
    harness.main()
