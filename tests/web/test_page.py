"""The page as a person meets it: a live run in a real browser. Its numbers are those
of the event log (live_run.py); in light and dark, on a phone, by keyboard, by ear.

One run and one browser for all checks, in the order of their names: the run goes on meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import api_page  # noqa: E402
import live_run  # noqa: E402
import relay  # noqa: E402
from browser import AXE, AXE_RULES, BACK, Browser  # noqa: E402

PHONE = (360, 740)
DESK = (1280, 900)
HOME, RIGHT = "\ue011", "\ue014"
# An hour of steps of 0.3 s, each with its plan; by quarters.
STEP_SECONDS = 0.3
QUARTER_OF_STEPS = 3000
GROWTH_MAX = 1.10
# Measures as the charts call them, and as `step` events do.
FIELDS = {"loss": "loss", "samples": "samples", "step": "seconds", "norm": "gradient_norm",
          "learning rate": "learning_rate", "contributors": "contributors", "members": "members",
          "left out": "left_out", "tau": "tau"}

pictures: Path | None = None
from_source = False


def served(address: str) -> str:
    """With the page of the source tree, where --source asks for it."""
    return relay.source_page(address) if from_source else address


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.run_ = live_run.LiveRun()
        cls.addClassCleanup(cls.run_.end)
        cls.run_.begin()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.line = relay.Line(served(cls.run_.address))
        cls.addClassCleanup(cls.line.close)
        cls.origin = f"http://{cls.line.address}"
        cls.browser.open(f"{cls.origin}/?token={cls.run_.token}")
        cls.live()
        cls.browser.until("a curve", lambda: cls.browser.ask("count", "#chart-loss polyline"))

    def setUp(self) -> None:
        self.browser.size(*DESK)
        self.browser.colours("light")

    @classmethod
    def live(cls, seconds: float = 30) -> None:
        cls.browser.until("it is live", lambda: cls.browser.text("#live") == "live", seconds)

    def steps_of_log(self) -> dict[int, dict]:
        return {event["fields"]["step"]: event["fields"] for event in self.run_.log("step")}

    def row_of(self, name: str) -> dict | None:
        return self.browser.ask("rowOf", name)

    # ---- numbers --------------------------------------------------------------------------------

    def test_01_the_token_is_not_left_in_the_address(self) -> None:
        self.assertEqual(self.browser.ask("address"), f"{self.origin}/")

    def test_02_the_overview_has_the_logs_newest_step(self) -> None:
        step, loss = self.browser.ask("newest")
        steps = self.steps_of_log()
        self.assertIn(int(step), steps)
        told = [fields["loss"] for number, fields in sorted(steps.items())
                if number <= int(step) and fields["loss"] is not None]
        self.assertEqual(float(loss), told[-1])

    def test_03_every_point_of_a_curve_is_an_event_of_the_log(self) -> None:
        curves = self.browser.ask("curves")
        steps = self.steps_of_log()
        told = [(name, step, value) for points in curves.values()
                for step, name, value in points if name in FIELDS]
        for name, step, value in told:
            self.assertEqual(value, steps[step][FIELDS[name]], f"{name}, step {step}")
        self.assertGreater(len(told), 50)
        newest = max(step for name, step, _ in told if name == "loss")
        self.assertGreaterEqual(newest, max(steps) - 10)

    def test_04_rounds_have_the_logs_seconds(self) -> None:
        self.browser.ask("open", "#rounds-details", True)
        rows = self.browser.until("rounds in a table", lambda: self.browser.ask(
            "cells", "#rounds-table tbody tr"))
        self.browser.ask("open", "#rounds-details", False)
        steps = self.steps_of_log()
        columns = {2: "seconds", 3: "computing_s", 4: "waiting_s", 6: "averaging_s",
                   7: "predicted_s", 8: "applying_s"}
        for row in rows:
            fields = steps[int(row[0].replace(",", ""))]
            words = self.browser.ask("durations", [fields.get(name) for name in columns.values()])
            self.assertEqual([row[column] for column in columns], words, row)

    def test_05_contributions_add_up(self) -> None:
        samples, people = self.browser.until(
            "contributions", lambda: self.browser.ask("contributions"))
        self.assertEqual(sum(people), samples)
        self.assertGreaterEqual(samples, self.run_.log("step")[5]["fields"]["samples_total"])
        self.assertEqual(self.browser.ask("count", "#people-table tbody tr"), len(people))

    def test_06_the_limit_is_that_of_a_plan_in_the_log(self) -> None:
        words = self.browser.until("whose line limits a round that this peer planned", lambda: (
            told := self.browser.text("#limit")) and "averaging planned" in told and told, 60)
        names = {peer["id"]: peer["name"] for peer in self.ask_peer("peers")["peers"]}
        plans = [event["fields"] for event in self.run_.log("plan")]
        said = {(f"waits for the {plan['bottleneck']} of {names[plan['bottleneck_peer']]}")
                for plan in plans if plan.get("bottleneck_peer") in names}
        self.assertTrue(any(each in words for each in said), (words, said))

    def test_07_who_took_part_for_how_long_is_what_certificates_say(self) -> None:
        def report() -> dict[str, float]:
            done = self.run_.dedloc("report", str(self.run_.host.directory), "--json")
            return {one["name"]: one["device_seconds"]
                    for one in json.loads(done.stdout)["persons"]}

        def page() -> dict[str, float]:
            return {name: told[0] for name, told in self.browser.ask("attended").items()}

        def reaches(now: dict[str, float], least: dict[str, float]) -> bool:
            return all(now.get(name, 0) >= seconds - 0.01 for name, seconds in least.items())

        before = report()
        self.assertIn(live_run.ANNA, before)
        told = self.browser.until("the page is as far", lambda: (
            now := page()) and reaches(now, before) and now)
        self.run_.until("so is the report, then", lambda: reaches(report(), told))

    # ---- what happens to peers ------------------------------------------------------------------

    def test_10_names_of_all_scripts_are_words_and_nothing_else(self) -> None:
        for name in (live_run.ANNA, live_run.OMAR, live_run.MARKUP):
            self.browser.until(f"{name} in the table", lambda: self.row_of(name))
        self.assertEqual(self.browser.ask("count", "img"), 0)
        self.assertTrue(self.browser.ask("isolated"))

    def test_11_a_peer_that_lies_is_banned_with_its_evidence(self) -> None:
        self.run_.join(live_run.LIAR, ("--flip-signs",))
        order = self.run_.until("a ban", lambda: next(
            (event for event in self.run_.log("order") if event["fields"]["order"] == "banned"),
            None), seconds=90)
        row = self.browser.until("the ban", lambda: (
            (row := self.row_of(live_run.LIAR)) and "banned" in row["text"] and row))
        self.assertEqual(row["evidence"], order["fields"]["evidence"])
        self.assertIn(order["fields"]["offence"], row["text"])

    def test_12_a_killed_peer_is_gone_and_a_newcomer_there(self) -> None:
        late = self.run_.join(live_run.LATE, device="laptop")
        self.run_.until("the newcomer is in", lambda: late.step() > 0)
        self.run_.until("its checks are told by the person's name", lambda: any(
            event["text"].startswith(f"{live_run.LATE}: 1 of 1")
            for event in self.run_.log("newcomer_right")))
        self.browser.until("the newcomer", lambda: self.row_of(live_run.LATE))
        self.run_.peers[2].process.kill()
        self.browser.until("the killed peer's row says so", lambda: (
            (row := self.row_of(live_run.MARKUP)) and row["gone"]))
        lost = [event["text"] for event in self.run_.log("peer_lost")]
        self.browser.until("and the list of events", lambda: any(
            text in self.browser.text("#log-list") for text in lost))

    def test_13_lanes_show_every_peer_that_computes(self) -> None:
        self.browser.until("three lanes with spans", lambda: sum(
            spans > 0 for _, spans in self.browser.ask("lanes")) >= 3)
        labels = " ".join(label for label, _ in self.browser.ask("lanes"))
        for word in (live_run.ANNA, live_run.OMAR, "computing"):
            self.assertIn(word, labels)

    def test_14_traffic_has_every_pair(self) -> None:
        self.browser.until("flows", lambda: self.browser.ask("count", ".matrix tbody tr") >= 3)
        cells = self.browser.ask("cells", ".matrix tbody tr")
        self.assertTrue(any("b/s" in cell or "B" in cell for row in cells for cell in row[1:]))

    def test_15_what_goes_between_this_peer_and_others_is_measured(self) -> None:
        self.browser.until("measured cells", lambda: self.browser.ask(
            "count", ".matrix td.measured") >= 4)
        self.assertIn("its connections counted", self.browser.text("#traffic-words"))
        self.assertIn("nobody here could measure", self.browser.text("#traffic-words"))
        answered = self.ask_peer("flows")["flows"]
        measured = [flow for flow in answered if flow["source"] == "measured"]
        us = self.ask_peer("run")["us"]
        self.assertTrue(all(us in (flow["from"], flow["to"]) for flow in measured))
        for flow in measured:
            self.assertAlmostEqual(flow["bytes_per_s"], flow["bytes"] / flow["seconds"])

    def ask_peer(self, what: str) -> dict:
        connection = http.client.HTTPConnection(self.run_.address, timeout=20)
        connection.request("GET", f"/api/{what}",
                           headers={"Authorization": f"Bearer {self.run_.token}"})
        return json.load(connection.getresponse())

    def test_16_what_a_model_writes_of_prompts_is_shown(self) -> None:
        sheets = self.run_.host.directory / "prompts"
        sheets.mkdir()
        for step, words in ((10, "Once upon <b>a time"), (20, "كان يا ما كان")):
            (sheets / f"step-{step}.txt").write_text(words, encoding="utf-8")
        self.browser.until("both answers, the newest first", lambda: self.browser.ask(
            "texts", "#pictures pre") == ["كان يا ما كان", "Once upon <b>a time"])
        self.assertEqual(self.browser.ask("texts", "#pictures figcaption"), ["step 20", "step 10"])

    # ---- how it looks ---------------------------------------------------------------------------

    def looks(self):
        for look, (width, height), scheme in (("light", DESK, "light"), ("dark", DESK, "dark"),
                                              ("phone", PHONE, "light"),
                                              ("phone-dark", PHONE, "dark")):
            self.browser.colours(scheme)
            self.browser.size(width, height)
            yield look, scheme

    def test_20_light_and_dark_and_a_phone(self) -> None:
        for look, scheme in self.looks():
            self.assertEqual(self.browser.ask("background"), BACK[scheme])
            wide, window = self.browser.ask("widths")
            self.assertLessEqual(wide, window, f"{look}: the page is wider than its window")
            if pictures:
                self.take_pictures(look)

    def take_pictures(self, look: str) -> None:
        for part in ("overview", "measures", "rounds", "peers", "traffic", "people", "advice",
                     "control", "events"):
            self.browser.ask("scrollTo", f"#{part}")
            self.browser.ask("wait", 700)
            self.browser.picture(pictures / f"web-{look}-{part}.png")
        self.browser.ask("toTop")

    def test_21_axe_finds_nothing(self) -> None:
        if not AXE.is_file():
            self.skipTest("axe-core is not here: npm install --prefix build/web axe-core")
        self.browser.load(AXE.read_text())
        self.browser.ask("open", "#rounds-details", True)
        self.browser.ask("open", "#traffic-flows", True)
        for look, _ in self.looks():
            with self.subTest(look):
                found = self.browser.ask("axe", AXE_RULES)
                self.assertEqual(found["wrong"], [], json.dumps(found, indent=1))
                self.assertGreater(found["passes"], 20)
        self.browser.ask("open", "#rounds-details", False)
        self.browser.ask("open", "#traffic-flows", False)

    def test_22_colours_can_be_chosen_and_stay(self) -> None:
        self.browser.ask("choose", "#theme", "dark")
        self.assertEqual(self.browser.ask("background"), BACK["dark"])
        self.browser.driver.refresh()
        self.live()
        self.assertEqual(self.browser.ask("background"), BACK["dark"])
        self.browser.ask("choose", "#theme", "")
        self.assertEqual(self.browser.ask("background"), BACK["light"])

    # ---- by keyboard, and for ears --------------------------------------------------------------

    def test_30_the_keyboard_reaches_everything_in_order_and_is_seen(self) -> None:
        places = self.browser.tab_through(150)
        self.assertIn("Skip", places[0]["what"])
        self.assertGreater(len(places), 20)
        for place in places:
            self.assertTrue(place["seen"] and place["outline"] != "none", place)
            self.assertFalse(place["hidden_by_head"], place)
        self.assertTrue(self.browser.ask("tabbedInOrder"))

    def test_31_arrow_keys_read_a_curve(self) -> None:
        plot = "#chart-loss .plot"
        self.browser.ask("focus", plot)
        self.browser.press(HOME)
        first = self.browser.ask("attribute", plot, "aria-valuetext")
        self.browser.press(RIGHT)
        self.assertNotEqual(self.browser.ask("attribute", plot, "aria-valuetext"), first)
        self.assertIn("step ", first)

    def test_32_the_live_region_does_not_chatter(self) -> None:
        changes, came, seconds = self.browser.ask("chatter", 8, 50)
        self.assertGreaterEqual(came, 8, "too few events came to tell")
        # A sentence in ten seconds at most; a browser counts it as one change, or out and in.
        self.assertLessEqual(changes, 2 * (1 + seconds // 10))

    # ---- acting ---------------------------------------------------------------------------------

    def test_40_pause_and_go_on(self) -> None:
        for now, then in (("Pause", "Go on"), ("Go on", "Pause")):
            self.assertEqual(self.browser.text("#pause"), now)
            self.browser.click("#pause")
            self.browser.until(then, lambda: self.browser.text("#pause") == then)

    def test_41_a_limit_is_in_the_log_and_on_the_page(self) -> None:
        self.browser.ask("clear", "input[name=up]")
        self.browser.type("input[name=up]", "50")
        self.browser.ask("send", "input[name=up]")
        self.run_.until("the log has it", lambda: any(
            event["fields"]["up_mbit"] == 50 for event in self.run_.log("caps")))
        self.browser.until("so does the page", lambda: "50 Mb/s" in self.browser.text(
            "#overview-words"))

    def test_42_a_person_is_invited_and_revoked_after_a_question(self) -> None:
        self.browser.type("input[name=who]", "José")
        self.browser.ask("send", "input[name=who]")
        self.browser.until("an invitation", lambda: self.browser.ask(
            "shown", "#control textarea"))
        members = self.run_.dedloc("members", "--dir", str(self.run_.host.directory))
        self.assertIn("José", members.stdout)
        self.browser.type("input[name=whom]", "José")
        self.browser.ask("send", "input[name=whom]")
        self.browser.until("the question", lambda: "José" in self.browser.text("#sure-title"))
        self.browser.click("#sure-yes")
        self.browser.until("the answer", lambda: "taken back" in self.browser.text("#control"))

    def test_44_the_model_is_published_after_a_question(self) -> None:
        self.assertFalse(self.run_.public.exists())
        self.browser.click("#publish")
        self.browser.until("the question", lambda: "Publish" in self.browser.text("#sure-title"))
        self.browser.click("#sure-yes")
        self.browser.until("the answer", lambda: "published the state of step" in
                           self.browser.text("#control"))
        published = (self.run_.public / "latest").resolve()
        self.assertTrue((published / "checkpoint.json").is_file())
        self.assertEqual(published.name, self.run_.host.checkpoints()[-1].name)
        if pictures:
            self.browser.ask("scrollTo", "#control")
            self.browser.picture(pictures / "web-light-control.png")

    def answer_to(self, method: str, path: str, body: str | None, headers: dict) -> int:
        connection = http.client.HTTPConnection(self.run_.address, timeout=10)
        try:
            connection.request(method, path, body, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def test_43_strangers_are_refused(self) -> None:
        json_type = {"Content-Type": "application/json"}
        ours = {**json_type, "Authorization": f"Bearer {self.run_.token}"}
        wrong = {"Authorization": "Bearer " + "0" * 32}
        in_address = f"/api/pause?token={self.run_.token}"
        for status, method, path, headers in (
                (401, "GET", "/api/run", {}),
                (401, "GET", "/api/run", wrong),
                (401, "POST", "/api/pause", json_type),
                (401, "POST", in_address, json_type),
                (403, "POST", "/api/pause", {**ours, "Origin": "http://evil.example"}),
                (403, "POST", "/api/pause", {**ours, "Sec-Fetch-Site": "cross-site"}),
                (421, "GET", "/api/run", {**ours, "Host": "evil.example"}),
                (404, "GET", "/nothing.js", {}),
                (200, "GET", "/api/run", ours)):
            with self.subTest(f"{method} {path} {headers}"):
                body = "{}" if method == "POST" else None
                self.assertEqual(self.answer_to(method, path, body, headers), status)
        self.assertEqual(self.browser.text("#pause"), "Pause")

    # ---- the stream, and memory -----------------------------------------------------------------

    def test_50_a_stream_that_ends_is_said_and_begun_again(self) -> None:
        self.line.cut()
        self.browser.until("it says so", lambda: "hears nothing" in self.browser.text("#notice"))
        self.assertEqual(self.browser.text("#live"), "connecting")
        before = max(self.steps_of_log())
        self.run_.until("steps go on", lambda: max(self.steps_of_log()) > before + 2)
        self.line.mend()
        self.live(seconds=40)
        steps = [step for step, _ in self.browser.ask("points", "samples")]
        self.assertIn(before + 1, steps)
        self.assertEqual(len(steps), len(set(steps)))

    def test_51_an_hour_of_events_does_not_grow_it(self) -> None:
        self.line.cut()  # so that only what is fed counts
        self.browser.cdp("Performance.enable")
        heap, elements = [], []
        for quarter in range(4):
            begin = 10_000 + quarter * QUARTER_OF_STEPS
            held = self.browser.ask("feed", begin, QUARTER_OF_STEPS, STEP_SECONDS)
            self.assertLessEqual(held["longest"], 1025)
            heap.append(self.browser.heap_bytes())
            elements.append(held["elements"])
        self.line.mend()
        self.assertLessEqual(heap[3], heap[0] * GROWTH_MAX, heap)
        self.assertLessEqual(elements[3], elements[0] * GROWTH_MAX, elements)
        self.browser.driver.refresh()
        self.live()

    def test_52_another_log_is_laid_over(self) -> None:
        self.browser.type("#compare", str(self.run_.peers[1].directory / "events.jsonl"))
        self.browser.until("it says so", lambda: "1 other run" in self.browser.text(
            "#compare-told"))
        self.browser.until("its curve", lambda: live_run.OMAR in self.browser.text(
            "#chart-loss .key"))
        self.browser.ask("click", "#compare-clear")

    def test_60_nothing_left_this_machine_and_nothing_was_refused(self) -> None:
        self.browser.read_logs()
        own = [url for url in self.browser.asked if url.startswith(self.origin)]
        self.assertGreater(len(own), 20)
        known = (self.origin, "data:", "chrome:", "about:")
        self.assertEqual([url for url in self.browser.asked if not url.startswith(known)], [])
        self.assertEqual([words for words in self.browser.complaints
                          if "Failed to load resource: net::ERR_" not in words], [])

    # ---- the end, and again ---------------------------------------------------------------------

    def test_70_an_observers_page_acts_on_nothing(self) -> None:
        watch = self.run_.watch()
        address, token = self.run_.until("its address", lambda: self.run_.page_address(watch))
        self.browser.open(f"http://{served(address)}/?token={token}")
        self.live()
        self.browser.until("peers", lambda: self.row_of(live_run.ANNA))
        self.assertFalse(self.browser.ask("shown", "#control"))
        self.assertFalse(self.browser.ask("shown", "#pause"))
        watch.process.send_signal(signal.SIGINT)
        self.browser.until("the end is said", lambda: "has ended" in self.browser.text("#notice"))

    def test_80_a_replay_has_the_same_numbers(self) -> None:
        self.run_.host.process.send_signal(signal.SIGINT)
        self.run_.host.end()
        steps = self.steps_of_log()
        replay = self.run_.replay()
        address, token = self.run_.until("its address", lambda: self.run_.page_address(replay))
        self.browser.open(f"http://{served(address)}/?token={token}")
        self.browser.until("the speed", lambda: self.browser.ask("shown", "#replay"))
        if pictures:
            self.browser.ask("wait", 2500)
            self.browser.picture(pictures / "web-replay.png")
        self.browser.ask("choose", "#replay-at", "1000")
        self.browser.until(f"step {max(steps)}, the last one", lambda: int(
            self.browser.ask("card", "step")) == max(steps))
        told = self.browser.ask("points", "loss")
        self.assertGreater(len(told), 20)
        for step, loss in told:
            self.assertEqual(loss, steps[step]["loss"])
        # The samples' authors: what `dedloc report` reads from the certificates.
        done = self.run_.dedloc("report", str(self.run_.host.directory), "--json")
        report = json.loads(done.stdout)["persons"]
        persons = {one["name"]: one["samples"] for one in report}
        self.assertEqual(self.browser.ask("people"), persons)
        attended = self.browser.ask("attended")
        for one in report:
            self.assertAlmostEqual(attended[one["name"]][0], one["device_seconds"], places=3)
        shown = self.browser.ask("column", "#people-table", "Took part")
        self.assertEqual(shown, {name: words for name, (_, words) in attended.items()})

    def test_81_a_saved_page_has_them_without_a_server(self) -> None:
        self.browser.read_logs()
        asked, complained = len(self.browser.asked), len(self.browser.complaints)
        saved = self.run_.host.directory / "report" / "run.html"
        self.browser.open(saved.as_uri())
        self.browser.until("it is shown", lambda: self.browser.text("#live") == "saved")
        steps = self.steps_of_log()
        self.browser.until("the last step", lambda: int(
            self.browser.ask("card", "step") or 0) == max(steps))
        for step, loss in self.browser.ask("points", "loss"):
            self.assertEqual(loss, steps[step]["loss"])
        self.assertTrue(self.browser.ask("people"))
        self.assertEqual(self.browser.ask("texts", "#pictures pre"),
                         ["كان يا ما كان", "Once upon <b>a time"])
        self.assertEqual(set(self.browser.ask("attended")), set(self.browser.ask("people")))
        for part in ("#control", "#replay", "#pause"):
            self.assertFalse(self.browser.ask("shown", part))
        if pictures:
            self.browser.ask("wait", 700)
            self.browser.picture(pictures / "web-saved.png")
        self.browser.read_logs()
        self.assertEqual([url for url in self.browser.asked[asked:]
                          if not url.startswith(("file:", "data:"))], [])
        self.assertEqual(self.browser.complaints[complained:], [])


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test) -> None:  # noqa: N802: unittest's name
        super().addSuccess(test)
        self.passed += 1


def main() -> int:
    global pictures, from_source
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="checks with that in their name")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    parser.add_argument("--source", action="store_true",
                        help="the page of the source tree, not what is compiled in")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    pictures, from_source = options.pictures, options.source
    api_page.pictures = options.pictures
    loader = unittest.TestLoader()
    if options.only:
        loader.testNamePatterns = [f"*{options.only}*"]
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(kind)
                               for kind in (api_page.ApiPage, Page))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    told = {"passed": result.passed, "failed": failed, "skipped": len(result.skipped)}
    print(json.dumps(told) if options.json else told)
    return 1 if failed or result.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
