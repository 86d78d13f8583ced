"""check_docs finds dead links, dead names and commands that fail."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_docs import check_page, main  # noqa: E402


class CheckDocs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "docs").mkdir()
        (self.root / "src").mkdir()
        (self.root / "src" / "a.h").write_text("")
        (self.root / "src" / "a.cpp").write_text("")
        (self.root / "README.md").write_text("")

    def tearDown(self):
        self.folder.cleanup()

    def found(self, text, run=True):
        page = self.root / "docs" / "page.md"
        page.write_text(text)
        return check_page(self.root, page, run)

    def test_what_is_there_passes(self):
        self.assertEqual(self.found(
            "[a](../README.md#top) [b](https://x.y/z) `src/a.h` `src/a.{h,cpp}` `src/*.cpp` `src/`\n"
            "```\n[c](nowhere) `src/b.h`\n```\n"), [])

    def test_dead_links_and_names_are_found_with_their_line(self):
        for text, words in (
            ("\n[a](../NOWHERE.md)\n", ":2: link"),
            ("`src/b.h`\n", ":1: path"),
            ("`src/a.{h,cc}`\n", "src/a.cc"),
            ("`src/*.py`\n", ":1: path"),
            ("`./demo.sh`\n", ":1: path"),
        ):
            with self.subTest(text=text):
                found = self.found(text)
                self.assertEqual(len(found), 1)
                self.assertIn(words, found[0])

    def test_marked_commands_run(self):
        block = "<!-- run -->\n```sh\ncat src/a.h\n{0}\n```\n"
        self.assertEqual(self.found(block.format("true")), [])
        self.assertIn("exit status 1", self.found(block.format("false"))[0])
        self.assertEqual(self.found(block.format("false"), run=False), [])
        self.assertEqual(self.found("```sh\nfalse\n```\n"), [])

    def test_the_exit_status_tells(self):
        self.found("`src/a.h`\n")
        self.assertEqual(main(["--root", str(self.root)]), 0)
        self.found("`src/b.h`\n")
        self.assertEqual(main(["--root", str(self.root)]), 1)


if __name__ == "__main__":
    unittest.main()
