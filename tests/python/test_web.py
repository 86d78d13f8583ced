"""The page of a loop of one's own: its numbers are the run's, it pauses the loop, a notebook shows
it, and nobody without the token is told anything."""

from __future__ import annotations

import json
import socket
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import dedloc
from dedloc._library import library
from torch import nn

from test_dedloc import LOOPBACK
from test_loop import Loop


class WebTest(Loop):
    def ask(self, page, path: str, body=None, token: bool = True):
        """The answer to /api/PATH; with a body it is an action."""
        address = urlsplit(page.address)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {parse_qs(address.query)['token'][0]}"
        asked = urllib.request.Request(f"http://{address.netloc}/{path}", headers=headers,
                                       data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer) if path.startswith("api") else answer

    def losses(self, page) -> list:
        series = self.ask(page, "api/series")["series"]
        return [point[1:] for point in series.get("loss", {"points": []})["points"]]

    def until(self, what) -> None:
        while not what():
            time.sleep(0.02)  # the alarm of Folder ends it

    def test_its_numbers_are_the_runs(self):
        run, opt = self.host(web=0, stop=dict(steps=6))
        page = run.web()
        while not run.finished:
            self.step(opt)
        logged = [[event["fields"]["step"], event["fields"]["loss"]] for event in run.events
                  if event["kind"] == "step"]
        self.assertEqual(len(logged), 6)
        self.until(lambda: len(self.losses(page)) == 6)
        self.assertEqual(self.losses(page), logged)
        told = self.ask(page, "api/run")
        self.assertEqual((told["progress"]["step"], told["us"]), (6, run.peer_id))
        peers = self.ask(page, "api/peers")
        self.assertEqual([peer["id"] for peer in peers["peers"]], [run.peer_id])
        self.assertEqual(peers["ledger"]["samples"], 48)
        run.leave()
        self.assertIn("left", self.over_of(page))
        run.close()
        with self.assertRaises(urllib.error.URLError):
            self.ask(page, "api/run")

    def over_of(self, page) -> str:
        """Returns the reason that the stream gives in the end."""
        address = urlsplit(page.address)
        with urllib.request.urlopen(f"http://{address.netloc}/api/stream?{address.query}",
                                    timeout=30) as stream:
            lines = stream.read().decode().splitlines()
        return json.loads(lines[lines.index("event: over") + 1].removeprefix("data: "))["reason"]

    def test_one_that_opens_later_knows_what_was_before(self):
        run, opt = self.host()
        for _ in range(3):
            self.step(opt)
        page = run.web(0)
        self.until(lambda: len(self.losses(page)) == 3)
        self.assertEqual(run.web().address, page.address, "one page a run")
        self.assertEqual(Path(self.folder, "host", "web").read_text(encoding="utf-8").strip(),
                         page.address)

    def test_pause_has_step_wait_and_lose_nothing(self):
        run, opt = self.host(web=0, target_batch=32)
        page = run.web()
        self.step(opt)
        self.assertEqual(self.ask(page, "api/pause", {}), {"ok": True, "paused": True})
        calls, stepped, real = [], [], library.dedloc_step

        def counted(*arguments):
            calls.append(1)
            return real(*arguments)
        training = threading.Thread(target=lambda: stepped.extend(self.step(opt) for _ in "ab"))
        with mock.patch.object(library, "dedloc_step", counted):
            training.start()
            self.until(lambda: len(calls) > 3)  # it waits, and Ctrl-C would be heard
            self.until(lambda: self.ask(page, "api/run")["paused"])
            self.assertEqual((stepped, run.global_step), ([], 0))
            self.ask(page, "api/resume", {})
            training.join()
        self.assertEqual(stepped, [False, False])
        self.assertTrue(self.step(opt))
        events = list(run.events)
        samples = [event["fields"]["samples"] for event in events if event["kind"] == "step"]
        self.assertEqual(samples, [32])
        self.assertEqual([event["kind"] for event in events
                          if event["kind"] in ("paused", "resumed")], ["paused", "resumed"])

    def test_a_notebook_shows_it_and_others_sites_do_not(self):
        run, _ = self.host(web=0)
        page = run.web()
        self.assertEqual(str(page), page.address)
        self.assertIn(f'<iframe src="{page.address}"', page._repr_html_())
        policy = self.ask(page, "").headers["Content-Security-Policy"]
        self.assertRegex(policy, r"frame-ancestors http://localhost:\* http://127\.0\.0\.1:\*")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(page, "api/run", token=False)
        self.assertEqual(refused.exception.code, 401)

    def test_what_is_wrong_is_said(self):
        run = dedloc.host(target_batch=8, optimizer="sgd", schedule=0.1, listen=LOOPBACK,
                          directory=f"{self.folder}/host")
        self.addCleanup(run.close, 0.0)
        with self.assertRaisesRegex(dedloc.DedlocError, "Optimizer"):
            run.web()
        dedloc.Optimizer(run, nn.Linear(4, 1))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with self.assertRaisesRegex(dedloc.LocalFault, "taken"):
                run.web(taken.getsockname()[1])
        with self.assertRaisesRegex(dedloc.BadInput, "no place"):
            run.web("everywhere")
        self.assertEqual(self.ask(run.web(0), "api/run")["us"], run.peer_id)


if __name__ == "__main__":
    unittest.main()
