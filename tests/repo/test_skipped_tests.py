"""The end of ./test.sh says which tests were skipped, and what they want."""

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from skipped_tests import main, reason_in, told  # noqa: E402

TESTS = """cmake_minimum_required(VERSION 3.20)
project(skipping NONE)
enable_testing()
add_test(NAME script COMMAND sh -c "echo a word before && echo wants the package foo && exit 77")
add_test(NAME googletest
         COMMAND sh -c "printf 'a.cpp:7: Skipped\\nwants bar\\n\\n[  SKIPPED ] A\\n'")
add_test(NAME passes COMMAND true)
set_tests_properties(script PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(googletest PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
"""


class SkippedTests(unittest.TestCase):
    def test_a_reason_is_what_the_test_itself_says(self):
        for output, reason in (
            ("test_a (x.A.test_a) ... skipped 'wants the package foo'\n\nRan 1 test in 0.1s\n\n"
             "OK (skipped=1)\n", "wants the package foo"),
            ('test_a (x.A.test_a) ... skipped "wants npm\'s foo"\nOK (skipped=1)\n',
             "wants npm's foo"),
            ("Note: Google Test filter = A.b\n[ RUN      ] A.b\n/x/a.cpp:12: Skipped\n"
             "wants pip's foo\n\n[  SKIPPED ] A.b (0 ms)\n", "wants pip's foo"),
            ("one line\nwants the packages a and b\n", "wants the packages a and b"),
            ("", "it does not say why"),
        ):
            with self.subTest(output=output):
                self.assertEqual(reason_in(output), reason)

    def test_tests_of_one_reason_share_a_line(self):
        self.assertEqual(told([("a", "wants foo"), ("b", "wants bar"), ("c", "wants foo")]),
                         "3 tests were skipped:\n  a, c: wants foo\n  b: wants bar")

    def test_what_ctest_writes_is_understood(self):
        if shutil.which("ctest") is None or shutil.which("ninja") is None:
            self.skipTest("wants the Debian packages cmake and ninja-build")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "CMakeLists.txt").write_text(TESTS)
            for command in (["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build"],
                            ["ctest", "--test-dir", f"{folder}/build", "--output-junit",
                             f"{folder}/results.xml"]):
                subprocess.run(command, check=True, capture_output=True, timeout=60)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(main([f"{folder}/results.xml"]), 0)
        self.assertEqual(said.getvalue(), "2 tests were skipped:\n"
                         "  script: wants the package foo\n  googletest: wants bar\n")

    def test_without_results_nothing_is_said(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(main(["/nowhere/results.xml"]), 0)
        self.assertEqual(said.getvalue(), "")


if __name__ == "__main__":
    unittest.main()
