"""tools/command_pages.py: what --help says becomes a manual page and completions."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import command_pages  # noqa: E402 (the folder is not a package)

HELP = """lend a line's end
Usage: dedloc lend [OPTIONS] string

Positionals:
  string TEXT REQUIRED        a join string

Options:
  -h,--help                   Print this help message and exit
  --relay-for TEXT:{members,anyone}
                              whom it serves: 'members', \\ or anyone
  --json                      print one JSON object

Examples:
  dedloc lend dedloc1…
"""
TOP = """Trains.
Usage: dedloc [OPTIONS] SUBCOMMAND

Options:
  -h,--help                   Print this help message and exit

Take part in a run:
  lend                        lend a line's end

Exit codes:
    0  ok               it worked
"""


class CommandPages(unittest.TestCase):
    def setUp(self) -> None:
        self.lend = command_pages.parse(["lend"], HELP)
        self.top = command_pages.parse([], TOP)

    def test_an_option_has_its_words_and_its_text_below_them(self) -> None:
        relay = self.lend.options[1]
        self.assertEqual(relay.options, ["--relay-for"])
        self.assertEqual(relay.text, "whom it serves: 'members', \\ or anyone")
        self.assertTrue(relay.takes_value)
        self.assertFalse(self.lend.options[2].takes_value)

    def test_groups_of_commands_are_found_and_exit_codes_are_none(self) -> None:
        self.assertEqual([entry.words for entry in self.top.commands], ["lend"])
        self.assertEqual(self.top.sections["Exit codes:"][0].words, "0 ok")

    def test_a_page_escapes_what_roff_would_read(self) -> None:
        page = command_pages.manual_page(self.lend, "0.1.0")
        self.assertIn("\\-\\-relay\\-for", page)
        self.assertIn("\\e or anyone", page)
        self.assertIn("dedloc lend dedloc1…", page)

    def test_completions_name_commands_and_options(self) -> None:
        commands = [self.top, self.lend]
        for text in (command_pages.bash(commands), command_pages.zsh(commands),
                     command_pages.fish(commands)):
            self.assertIn("lend", text)
            self.assertIn("relay-for", text)


if __name__ == "__main__":
    unittest.main()
