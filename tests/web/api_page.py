"""The page of `dedloc serve-api` as a person meets it: a small model that was trained for a few
steps, in a real browser. test_page.py runs this beside the page of a run.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))
from api_models import Trained  # noqa: E402
from browser import AXE, AXE_RULES, BACK, Browser  # noqa: E402
from served import Served, listening_addresses  # noqa: E402

LOOKS = (("light", (1280, 900)), ("dark", (1280, 900)), ("light", (360, 740)), ("dark", (360, 740)))
ENTER, CONTROL = "\ue007", "\ue009"
PROMPT = "The run"
pictures: Path | None = None


class ApiPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.trained = Trained()
        cls.addClassCleanup(cls.trained.end)
        cls.served = cls.serve(cls.trained.writer())
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.open(cls.served)

    @classmethod
    def serve(cls, model: str) -> Served:
        served = Served(cls.trained.folder, model, name=f"served-{len(cls.trained.peers)}")
        cls.trained.peers.append(served)
        served.where()
        return served

    @classmethod
    def open(cls, served: Served) -> None:
        cls.browser.open(served.where()["address"])
        cls.browser.until("the model", lambda: "step" in cls.browser.text("#state"))

    def setUp(self) -> None:
        self.browser.size(1280, 900)
        self.browser.colours("light")

    def fill(self, selector: str, words: str) -> None:
        self.browser.ask("clear", selector)
        self.browser.type(selector, words)

    def done(self, word: str = "done") -> None:
        self.browser.until(word, lambda: self.browser.text("#doing") == word)

    def greedy(self) -> str:
        _, told = self.served.post("/v1/completions", prompt=PROMPT, max_tokens=12, temperature=0)
        return told["choices"][0]["text"]

    def test_01_a_prompt_is_answered(self) -> None:
        self.assertEqual(self.browser.text("#model"), "language-test")
        self.fill("#prompt", PROMPT)
        self.fill("#tokens", "12")
        self.fill("#temperature", "0")
        self.browser.click("#send")
        self.done()
        text = self.browser.driver.find_element("id", "text").get_property("textContent")
        self.assertEqual(text, PROMPT + self.greedy())
        self.assertIn("12 tokens", self.browser.text("#facts"))
        self.assertIn("step-5", self.browser.text("#facts"))

    def test_02_a_screen_reader_is_told_all_of_it(self) -> None:
        said = self.browser.driver.find_element("id", "said")
        self.assertEqual(said.get_attribute("aria-live"), "polite")
        told = "".join(said.get_property("textContent").split())
        self.assertEqual(told, "".join(self.greedy().split()))

    def test_03_what_is_wrong_is_said(self) -> None:
        self.fill("#prompt", "word " * 200)
        self.browser.click("#send")
        self.browser.until("it", lambda: "tokens" in self.browser.text("#trouble"))
        self.assertIn("64", self.browser.text("#trouble"))
        self.assertEqual(self.browser.ask("attribute", "#trouble", "role"), "alert")
        self.fill("#prompt", PROMPT)
        self.browser.click("#send")
        self.done()
        self.assertFalse(self.browser.ask("shown", "#trouble"))

    def test_10_the_keyboard_is_enough(self) -> None:
        places = self.browser.tab_through(40)
        self.assertIn("Skip", places[0]["what"])
        for what in ("prompt", "tokens", "temperature", "seed", "send"):
            self.assertIn(what, [place["what"] for place in places])
        for place in places:
            self.assertTrue(place["seen"] and place["outline"] != "none", place)
        self.assertTrue(self.browser.ask("tabbedInOrder"))
        self.fill("#prompt", "And")
        self.browser.type("#prompt", CONTROL + ENTER)
        self.browser.until("its answer", lambda: self.browser.text("#asked").startswith("And"))
        self.done()

    def check_looks(self, name: str) -> None:
        for scheme, size in LOOKS:
            self.browser.colours(scheme)
            self.browser.size(*size)
            self.assertEqual(self.browser.ask("background"), BACK[scheme])
            wide, window = self.browser.ask("widths")
            self.assertLessEqual(wide, window, f"{scheme} {size}: wider than its window")
            if pictures:
                self.browser.picture(pictures / f"api-{name}-{scheme}-{size[0]}.png")
            if AXE.is_file():
                found = self.browser.ask("axe", AXE_RULES)
                self.assertEqual(found["wrong"], [], f"{scheme} {size}")
                self.assertGreater(found["passes"], 15)

    def test_20_light_dark_and_a_phone_with_axe(self) -> None:
        self.browser.load(AXE.read_text() if AXE.is_file() else "")
        self.check_looks("text")
        if not AXE.is_file():
            self.skipTest("axe-core is not here: npm install --prefix build/web axe-core")

    def test_30_it_listens_on_this_machine_alone(self) -> None:
        self.assertEqual(listening_addresses(self.served.where()["port"]), {"0100007F"})

    def test_31_nothing_left_this_machine_and_nothing_was_refused(self) -> None:
        self.browser.read_logs()
        known = (self.served.where()["address"], "data:", "chrome:", "about:")
        self.assertEqual([url for url in self.browser.asked if not url.startswith(known)], [])
        self.assertEqual([words for words in self.browser.complaints
                          if "status of 400" not in words], [])

    def test_40_pictures_are_drawn_in_a_grid(self) -> None:
        self.open(self.serve(self.trained.painter()))
        self.assertFalse(self.browser.ask("shown", "#tokens"))
        self.fill("#prompt", "red place 1")
        self.fill("#count", "3")
        self.browser.click("#send")
        self.done()
        self.assertEqual(self.browser.ask("count", "#pictures img"), 3)
        widths = [image.get_property("naturalWidth")
                  for image in self.browser.driver.find_elements("css selector", "#pictures img")]
        self.assertTrue(all(width >= 64 for width in widths), widths)
        self.assertIn("red place 1", self.browser.ask("attribute", "#pictures img", "alt"))
        self.browser.load(AXE.read_text() if AXE.is_file() else "")
        self.check_looks("pictures")
        self.fill("#prompt", "xyzzy")
        self.browser.click("#send")
        self.browser.until("the unknown word", lambda: "xyzzy" in self.browser.text("#trouble"))
