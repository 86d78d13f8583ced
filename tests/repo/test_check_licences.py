"""tools/check_licences.py: what passes and what does not."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_licences  # noqa: E402

HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"


class Licences(unittest.TestCase):
    def judge(self, text: str, reviewed: dict | None = None) -> tuple[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libx1").mkdir()
            (Path(folder) / "libx1/copyright").write_text(text, encoding="utf-8")
            return check_licences.judge("libx1", reviewed or {}, Path(folder))

    def test_the_gpl_does_not_pass(self) -> None:
        licence, wrong = self.judge(HEAD + "Files: *\nCopyright: X\nLicense: GPL-3+\n Text.\n")
        self.assertEqual(licence, "GPL-3+")
        self.assertIn("GPL-3+", wrong)
        for expression in ("GPL-2", "AGPL-3", "Expat and GPL-2+", "GPL-2+ or GPL-3+"):
            self.assertFalse(check_licences.passes(expression), expression)

    def test_alternatives_exceptions_and_the_lesser_gpl_pass(self) -> None:
        for expression in ("LGPL-2.1+", "GPL-2+ or LGPL-3+", "GPL-3+ with GCC exception", "Expat",
                           "MPL-1.1 or GPL-2+ or LGPL-2.1+", "Apache-2.0 and Expat"):
            self.assertTrue(check_licences.passes(expression), expression)

    def test_what_no_library_contains_does_not_count(self) -> None:
        text = (HEAD + "Files: *\nLicense: Expat\n\nFiles: debian/*\nLicense: GPL-2+\n\n"
                "Files: m4/a.m4 config.guess\n       test/a.c\nLicense: GPL-3+\n\n"
                "License: GPL-2+\n The text.\n")
        self.assertEqual(self.judge(text), ("Expat", ""))
        self.assertIn("GPL-3+", self.judge(text + "\nFiles: src/hard.c\nLicense: GPL-3+\n")[1])

    def test_a_file_for_people_is_judged_by_people(self) -> None:
        text = "This is free software under the GNU General Public License.\n"
        self.assertIn("tools/licences.toml", self.judge(text)[1])
        reviewed = {"libx1": {"licence": "LGPL-2.1+", "why": "its COPYING"}}
        self.assertEqual(self.judge(text, reviewed), ("LGPL-2.1+ (its COPYING)", ""))
        self.assertEqual(self.judge("Do with it what you like.\n")[1], "")


if __name__ == "__main__":
    unittest.main()
