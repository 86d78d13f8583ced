"""check_core finds a file that is built without libtorch and needs it."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_core import main  # noqa: E402

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small CXX)
add_library(small STATIC src/plain.cpp)
if(DEDLOC_TORCH)
    target_sources(small PRIVATE src/model.cpp)
endif()
"""


class CheckCore(unittest.TestCase):
    def check(self, files: dict[str, str]) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            always = {"CMakeLists.txt": PROJECT, "src/model.cpp": "#include <torch/torch.h>\n"}
            for name, text in (always | files).items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = main(["--root", folder])
            return status, said.getvalue()

    def test_files_that_are_left_out_may_need_it(self) -> None:
        status, said = self.check({"src/plain.cpp": '#include "plain.h"\n', "src/plain.h": ""})
        self.assertEqual((status, said.split()[0]), (0, "1"), said)

    def test_a_header_that_leads_to_it_is_told_with_the_way(self) -> None:
        status, said = self.check({"src/plain.cpp": '#include "plain.h"\n',
                                   "src/plain.h": "#  include <ATen/core/Tensor.h>\n"})
        self.assertEqual(status, 1)
        self.assertIn("src/plain.cpp", said)
        self.assertIn("src/plain.h -> ATen/core/Tensor.h", said)

    def test_a_tree_that_cannot_be_configured_is_a_failure_that_says_why(self) -> None:
        wrong = PROJECT + "message(FATAL_ERROR \"the synthetic task is missing\")\n"
        status, said = self.check({"CMakeLists.txt": wrong, "src/plain.cpp": ""})
        self.assertEqual(status, 1, said)
        self.assertIn("the synthetic task is missing", said)
        self.assertIn("cannot be configured without libtorch", said)

    def test_without_cmake_nothing_can_be_said(self) -> None:
        with mock.patch("shutil.which", return_value=None):
            status, said = self.check({"src/plain.cpp": ""})
        self.assertEqual(status, 77, said)
        self.assertIn("wants cmake and ninja", said)


if __name__ == "__main__":
    unittest.main()
