"""Debian's headless Chromium, driven by its driver. The browser reaches this machine's loopback and
nothing else: every other name fails, and what the page asked for is written down.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-extensions",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
             "--js-flags=--expose-gc", "--enable-precise-memory-info")
AXE = Path(os.environ.get("AXE", ""))
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
BACK = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}  # of every page of dedloc
TAB = "\ue004"
IN_PAGE = Path(__file__).with_name("in_page.js").read_text()


class Browser:
    def __init__(self) -> None:
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(60)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.size(1280, 900)

    def close(self) -> None:
        self.driver.quit()

    def open(self, address: str) -> None:
        self.driver.get(address)

    def ask(self, name: str, *arguments):
        """A function of in_page.js; a promise is waited for."""
        told = self.driver.execute_async_script(
            f"{IN_PAGE}; const [name, ...given] = arguments; const done = given.pop();"
            "Promise.resolve().then(() => inPage[name](...given))"
            ".then((value) => done({ value }), (error) => done({ error: String(error) }));",
            name, *arguments)
        if "error" in told:
            raise AssertionError(f"{name}: {told['error']}")
        return told.get("value")

    def text(self, selector: str) -> str:
        return self.ask("text", selector)

    def load(self, script: str) -> None:
        self.driver.execute_script(script)

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def type(self, selector: str, words: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(words)

    def press(self, key: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(key).perform()

    def tab_through(self, presses_max: int) -> list[dict]:
        """Presses Tab until the focus leaves the page; returns each place that had it."""
        self.ask("beginTabbing")
        places = []
        for _ in range(presses_max):
            self.press(TAB)
            place = self.ask("focused")
            if place is None:
                return places
            places.append(place)
        raise AssertionError(f"the focus does not leave the page after {presses_max} presses of "
                             "Tab")

    def until(self, what: str, condition, seconds: float = 30):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not on the page within {seconds} s: {what}")
            time.sleep(0.1)
        return value

    # ---- how it is shown ------------------------------------------------------------------------

    def cdp(self, command: str, **options):
        return self.driver.execute_cdp_cmd(command, options)

    def size(self, width: int, height: int, scale: float = 1) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=scale, mobile=False)

    def colours(self, scheme: str) -> None:
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme},
                           {"name": "prefers-reduced-motion", "value": "reduce"}])

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    def heap_bytes(self) -> int:
        """After a collection, so that only what is held counts."""
        self.cdp("HeapProfiler.collectGarbage")
        metrics = self.cdp("Performance.getMetrics")["metrics"]
        return next(int(one["value"]) for one in metrics if one["name"] == "JSHeapUsedSize")

    # ---- what it did ----------------------------------------------------------------------------

    def read_logs(self) -> None:
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
        self.complaints += [entry["message"] for entry in self.driver.get_log("browser")
                            if entry["level"] == "SEVERE"]
