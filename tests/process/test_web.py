"""The web page's server, `dedloc pause`, `resume`, `limit` and `replay`, with real peers.

Numbers of /api are compared with the peer's own events.jsonl. Skips what needs promtool (Debian's
package prometheus) where it is missing.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import harness
from harness import ProcessTest, run_text

ROOT = Path(__file__).resolve().parents[2]


class Page:
    """A browser, or another program, at an address that dedloc wrote."""

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"http://([\w.]+):(\d+)/\?token=([0-9a-f]{32})", address.strip())
        assert found, address
        self.host, self.port, self.token = found[1], int(found[2]), found[3]

    def ask(self, method: str, path: str, token: bool = True, body: str | None = None,
            **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, name: str) -> dict:
        status, text = self.ask("GET", f"/api/{name}")
        assert status == 200, (status, text)
        return json.loads(text)

    def act(self, action: str, **body: object) -> dict:
        status, text = self.ask("POST", f"/api/{action}", body=json.dumps(body))
        assert status == 200, (status, text)
        return json.loads(text)


def page_of(test: ProcessTest, peer: harness.Peer) -> Page:
    path = peer.directory / "web"
    test.until("the page's address", lambda: test.alive(peer) and path.exists())
    test.assertEqual(path.stat().st_mode & 0o077, 0)  # the token is its user's alone
    return Page(path.read_text())


def page_beside(test: ProcessTest, *words: str) -> tuple[Page, list[str]]:
    """The page of a program that is no peer (`replay` or `watch`), and the lines that it printed
    before the page's address."""
    process = subprocess.Popen([harness.DEDLOC, *words, "--web", "0"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    test.addCleanup(process.stdout.close)
    test.addCleanup(process.wait, 20)
    test.addCleanup(process.kill)
    said = []
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return Page(found[0]), said
        said.append(line)
    raise AssertionError(f"no address of a page: {''.join(said)}")


def two_peers(test: ProcessTest, **run: object) -> tuple[harness.Peer, harness.Peer]:
    file = test.write("run.toml", run_text(**{"gradient_ms": 5, **run}))
    host = test.running_host(file, more=("--name", "Hanna", "--web", "0"))
    guest = test.join(host.join_string(), "guest", more=("--name", "অনিতা", "--web", "0"))
    test.until_shared_steps(3, host, guest)
    return host, guest


class Numbers(ProcessTest):
    def test_they_are_those_of_the_event_log(self) -> None:
        host, guest = two_peers(self)
        page = page_of(self, host)
        self.until("twelve steps", lambda: page.json("run")["progress"]["step"] >= 12)
        # A peer's phases are seen once a status: one may compute in each of the first.
        self.until("three stretches of a peer", lambda: any(
            len(stretches) > 2 for stretches in page.json("rounds")["timeline"].values()))
        series = page.json("series")
        rounds = page.json("rounds")
        events = page.json("events?limit=1024")
        peers = page.json("peers")
        logged = host.events()
        shown = {event["number"]: event for event in events["events"]}
        for number, event in shown.items():
            for ours in ("number", "routine", "tone"):
                del event[ours]
        # The log of this process has them in the same order, and no other between.
        self.assertEqual([shown[number] for number in sorted(shown)],
                         logged[:max(shown)][min(shown) - 1:])
        steps = {event["step"]: event for event in (
            {**event["fields"], "time": event["time"]} for event in logged
            if event["kind"] == "step")}
        self.assertGreaterEqual(len(series["series"]["samples"]["points"]), 12)
        for name, field in (("samples", "samples"), ("loss", "loss"), ("step_s", "seconds"),
                            ("contributors", "contributors")):
            for time, step, value in series["series"][name]["points"]:
                self.assertEqual(value, steps[step][field], (name, step))
                self.assertAlmostEqual(time, steps[step]["time"], places=3)
        for one in rounds["rounds"]:
            for field in ("seconds", "computing_s", "waiting_s", "averaging_s", "samples"):
                self.assertEqual(one[field], steps[one["step"]].get(field), field)
        self.assertEqual({peer["name"] for peer in peers["peers"]}, {"Hanna", "অনিতা"})
        ledger = peers["ledger"]
        self.assertTrue(ledger["certified"])
        self.assertEqual({one["name"] for one in ledger["people"]}, {"Hanna", "অনিতা"})
        newest = page.json("run")["progress"]
        again = page.json("peers")["ledger"]["samples"]
        self.assertGreaterEqual(again, sum(step["samples"] for step in steps.values()
                                           if step["step"] <= newest["step"] - 5))
        flows = page.json("flows")
        # The peer's own connections may have been measured for long enough already.
        sources = {flow["source"] for flow in flows["flows"]}
        self.assertLessEqual({"certificate"}, sources)
        self.assertLessEqual(sources, {"certificate", "measured"})
        self.assertEqual(len({flow["from"] for flow in flows["flows"]}), 2)
        self.expect_sums_at_the_end(host, guest)

    def expect_sums_at_the_end(self, host: harness.Peer, guest: harness.Peer) -> None:
        """The ledger has counted what is certified, when the run stands still."""
        guest.signal(signal.SIGINT)
        self.assertEqual(guest.end(), harness.OK, guest.errors())
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        report = self.dedloc("report", str(host.directory), "--json")
        self.assertEqual(report.returncode, harness.OK, report.stderr)
        replay = self.replay(host)
        self.assertAlmostEqual(replay.json("peers")["ledger"]["samples"],
                               json.loads(report.stdout)["samples"], places=6)
        replay.act("replay", at=replay.json("run")["replay"]["to"])
        last = host.events("step")[-1]["fields"]
        progress = replay.json("run")["progress"]
        self.assertEqual(progress["step"], last["step"])
        self.assertEqual(progress["samples_total"], last["samples_total"])

    def replay(self, peer: harness.Peer) -> Page:
        page, before = page_beside(self, "replay", str(peer.directory), "--speed", "0.01")
        self.assertEqual(before, [])
        self.assertEqual(page.json("run")["mode"], "replay")
        return page

    def test_an_observer_and_a_stream(self) -> None:
        host, _ = two_peers(self)
        seen, _ = page_beside(self, "watch", host.join_string(), "--plain")
        self.until("both peers", lambda: len(seen.json("peers")["peers"]) >= 2)
        run = seen.json("run")
        self.assertEqual((run["mode"], run["us"], run["may"]), ("watch", None, []))
        self.assertEqual(seen.ask("POST", "/api/pause", body="{}")[0], 404)
        page = page_of(self, host)
        connection = http.client.HTTPConnection(page.host, page.port, timeout=20)
        self.addCleanup(connection.close)
        connection.request("GET", f"/api/stream?token={page.token}")
        answer = connection.getresponse()
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        names = set()
        steps = []
        while not {"run", "peers", "flows", "timeline", "event"} <= names or len(steps) < 3:
            line = answer.readline().decode().strip()
            if line.startswith("event: "):
                names.add(line[7:])
            elif line.startswith("data: ") and '"kind":"step"' in line:
                steps.append(json.loads(line[6:])["fields"]["step"])
        self.assertEqual(steps, list(range(steps[0], steps[0] + len(steps))))


class Gate(ProcessTest):
    def test_strangers_and_other_sites_are_refused(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()), more=("--web", "0"))
        page = page_of(self, host)
        own = f"{page.host}:{page.port}"
        for status, asked in (
                (200, dict(path="/", token=False)),
                (200, dict(path="/metrics", token=False)),
                (401, dict(path="/api/run", token=False)),
                (401, dict(path="/api/run?token=" + 32 * "0", token=False)),
                (200, dict(path="/api/run?token=" + page.token, token=False)),
                (421, dict(path="/api/run", Host="evil.example")),
                (421, dict(path="/", Host=f"evil.example:{page.port}")),
                (403, dict(path="/api/run", Origin="http://evil.example")),
                (403, dict(path="/api/run", Sec_Fetch_Site="cross-site")),
                (401, dict(method="POST", path="/api/pause", token=False, body="{}")),
                (401, dict(method="POST", path="/api/pause?token=" + page.token, token=False,
                           body="{}")),
                (403, dict(method="POST", path="/api/pause", body="{}", Origin="null")),
                (415, dict(method="POST", path="/api/pause", body="{}", Content_Type="text/plain")),
                (421, dict(method="POST", path="/api/pause", body="{}", Host="evil.example")),
                (404, dict(method="POST", path="/api/invite", body='{"name":"x"}')),
                (405, dict(method="DELETE", path="/api/run")),
                (200, dict(path="/api/run", Origin=f"http://{own}"))):
            asked = {"method": "GET", **asked}
            self.assertEqual(page.ask(**asked)[0], status, asked)
        self.assertFalse(page.json("run")["paused"])
        self.assertEqual(host.events("paused"), [])

    def test_it_listens_on_this_machine_alone_and_keeps_its_token(self) -> None:
        run = self.write("run.toml", run_text())
        host = self.running_host(run, more=("--web", "0"))
        page = page_of(self, host)
        listening = subprocess.run(["ss", "-Hltn", f"sport = :{page.port}"], capture_output=True,
                                   text=True, check=True).stdout.split()
        self.assertIn(f"127.0.0.1:{page.port}", listening)
        self.assertNotIn("0.0.0.0", " ".join(listening[3:4]))
        taken = self.host(run, name="other", more=("--web", str(page.port)))
        self.assertEqual(taken.end(), harness.PORT)
        self.expect_sentence(taken.errors(), str(page.port))
        wrong = self.dedloc("host", str(run), "--web=evil.example:80", "--dir",
                            str(self.folder / "wrong"))
        self.assertEqual(wrong.returncode, harness.BAD_INPUT)
        self.expect_sentence(wrong.stderr, "evil.example:80")
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())
        again = self.host(run, name="host", more=("--web", "0"))
        self.until("a join string", again.join_string)
        self.until("it serves", lambda: self.answers(again))
        self.assertEqual(page_of(self, again).token, page.token)

    def answers(self, peer: harness.Peer) -> bool:
        try:  # the file may have the address of the process before
            return bool(page_of(self, peer).json("run")["us"])
        except OSError:
            return False


class Actions(ProcessTest):
    def test_pause_and_resume_by_command_and_page(self) -> None:
        host, guest = two_peers(self, target=32)
        page = page_of(self, guest)
        done = self.dedloc("pause", str(guest.directory))
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.until("it is told", lambda: guest.events("paused"))
        self.until("it rests", lambda: self.phase_of_guest(host) == "waiting")
        at = max(host.step(), guest.step()) + 2  # what it had handed in is in those
        self.until_step(at + 3, host, guest)  # it keeps up, without computing
        for event in guest.events("step"):
            if event["step"] > at:
                self.assertEqual(event["fields"]["contributors"], 1)
                self.assertEqual(event["fields"]["computing_s"], 0)
        self.assertTrue(page.json("run")["paused"])
        self.assertEqual(page.act("resume"), {"ok": True, "paused": False})
        self.until("both contribute",
                   lambda: host.events("step")[-1]["fields"]["contributors"] == 2)
        self.assertEqual(len(guest.events("resumed")), 1)

    def phase_of_guest(self, host: harness.Peer) -> str:
        return next(peer["phase"] for peer in page_of(self, host).json("peers")["peers"]
                    if not peer["is_us"])

    def test_a_peer_that_pauses_alone_goes_on_where_it_was(self) -> None:
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=50, target=64)),
                                 more=("--web", "0"))
        page = page_of(self, host)
        self.until("a step", lambda: host.step() >= 1)
        for _ in range(3):
            page.act("pause")
            at = host.step() + 1
            self.until("it rests", lambda: page.json("run")["progress"]["samples_per_s"]
                       is not None and page.json("peers")["peers"][0]["phase"] == "waiting")
            self.assertLessEqual(host.step(), at)
            page.act("resume")
            self.until("it goes on", lambda: host.step() >= at + 1)
        self.assertEqual(page.act("pause")["paused"], True)
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK, host.errors())

    def test_limits_are_changed_while_it_runs(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()), more=("--web", "0"))
        page = page_of(self, host)
        self.assertEqual(page.act("limit", up_mbit=5, down_mbit=0)["caps"],
                         {"up_mbit": 5.0, "down_mbit": 0.0})
        self.until("it holds", lambda: page.json("run")["caps"]["up_mbit"] == 5)
        self.assertEqual(host.events("caps")[-1]["fields"], {"up_mbit": 5.0, "down_mbit": 0.0})
        done = self.dedloc("limit", str(host.directory), "--max-down", "7")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        self.until("both hold", lambda: page.json("run")["caps"] ==
                   {"up_mbit": 5.0, "down_mbit": 7.0})
        wrong = self.dedloc("limit", str(host.directory), "--max-up", "fast")
        self.assertEqual(wrong.returncode, harness.BAD_INPUT)
        self.expect_sentence(wrong.stderr, "fast")
        self.assertEqual(page.ask("POST", "/api/limit", body='{"up_mbit":"fast"}')[0], 400)
        nobody = self.dedloc("pause", str(self.folder / "nobody"))
        self.assertEqual(nobody.returncode, harness.UNREACHABLE)
        self.expect_sentence(nobody.stderr, "no peer is running")

    def test_publishing_is_an_action_of_a_peer_that_has_a_place_for_it(self) -> None:
        run = self.write("run.toml", run_text())
        told = self.folder / "told"
        host = self.running_host(run, more=("--web", "0", "--on-checkpoint", f"echo $2 >> {told}"))
        page = page_of(self, host)
        self.assertIn("publish", page.json("run")["may"])
        refused = page.ask("POST", "/api/publish", token=False, body="{}")
        self.assertEqual((refused[0], told.exists()), (401, False))
        self.assertEqual(page.act("publish"), {"ok": True})
        self.until("it is told", lambda: host.events("published"))
        self.assertIn("published the state of step " + told.read_text().strip(),
                      [event["text"] for event in host.events("published")])

    def test_an_organiser_invites_and_revokes(self) -> None:
        host = self.running_host(self.write("run.toml", run_text()),
                                 more=("--web", "0", "--admit", "list"))
        page = page_of(self, host)
        self.assertIn("invite", page.json("run")["may"])
        self.assertNotIn("publish", page.json("run")["may"])  # it was given no place
        text = page.act("invite", name="Anna")["text"]
        guest = self.join(text, "guest")
        self.until_shared_steps(host.step() + 2, host, guest)
        self.until("her name", lambda: "Anna" in {
            peer["person"] for peer in page.json("peers")["peers"]})
        page.act("revoke", name="Anna")
        guest.end()
        self.assertEqual(page.ask("POST", "/api/revoke", body='{"name":"Nobody"}')[0], 400)


class Metrics(ProcessTest):
    def test_promtool_accepts_them(self) -> None:
        if shutil.which("promtool") is None:
            self.skipTest("promtool is missing: apt-get install prometheus")
        host, _ = two_peers(self)
        page = page_of(self, host)
        status, text = page.ask("GET", "/metrics", token=False)
        self.assertEqual(status, 200)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_the_dashboard_asks_for_what_there_is(self) -> None:
        dashboard = json.loads((ROOT / "packaging/grafana/dedloc.json").read_text())
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}),
                         len(dashboard["panels"]))
        host, _ = two_peers(self)
        text = page_of(self, host).ask("GET", "/metrics", token=False)[1]
        there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                asked = set(re.findall(r"\bdedloc_\w+", target["expr"]))
                self.assertTrue(asked)
                self.assertLessEqual(asked, there | {"dedloc_accuracy_ratio"}, panel["title"])


if __name__ == "__main__":
    harness.main()
