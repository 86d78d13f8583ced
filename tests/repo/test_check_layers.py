"""check_layers refuses what the table forbids, and the table of this repository is sound."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_layers import Checker, Table, TableError, main  # noqa: E402

TABLE = """
[libraries]
asio = ["asio.hpp", "asio/"]
toml = ["toml++/"]
gtest = ["gtest/"]
[names]
asio = ["asio::"]
[moved]
headers = ["base/sim_clock.h"]
[everywhere]
libraries = []
test_libraries = ["gtest"]
[modules.base]
modules = []
libraries = []
[modules.runtime]
modules = ["base"]
libraries = ["asio"]
[modules.sim]
modules = ["base", "runtime"]
libraries = ["asio"]
[modules.dht]
modules = ["base", "runtime"]
test_modules = ["sim"]
libraries = []
files = { "run_file.cpp" = ["toml"] }
[modules.cli]
modules = "all"
libraries = []
[roots]
folders = ["tests", "experiments"]
libraries = ["gtest"]
[roots.may_include]
experiments = ["tests/sim"]
"""


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.write("tools/layers.toml", TABLE)
        self.cmake("dht", "MODULES base runtime TEST_MODULES sim COROUTINES")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def cmake(self, module, arguments):
        self.write(f"src/dedloc/{module}/CMakeLists.txt", f"dedloc_module({module} {arguments})\n")

    def problems(self):
        return Checker(self.root, Table.load(self.root / "tools/layers.toml")).run()

    def source_problems(self, text, name="src/dedloc/dht/node.cpp"):
        self.write(name, text)
        found = self.problems()
        (self.root / name).unlink()
        return found

    def test_an_allowed_include_passes(self):
        text = '#include <vector>\n#include "dedloc/base/a.h"\n#include "dedloc/dht/b.h"\n'
        self.assertEqual(self.source_problems(text), [])

    def test_a_header_that_moved_points_upward_and_nobody_here_includes_it(self):
        up = '#include "dedloc/sim/sim_clock.h"\n'
        self.assertEqual(self.source_problems(up, "src/dedloc/base/sim_clock.h"), [])
        found = self.source_problems('#include "dedloc/base/sim_clock.h"\n')
        self.assertIn("has moved", found[0])

    def test_forbidden_lines_are_found(self):
        for line, word in (
            ('#include "dedloc/cli/main.h"', "may not include module cli"),
            ('#include "dedloc/sim/world.h"', "may not include module sim"),
            ('#include "dedloc/nowhere/a.h"', "no module nowhere"),
            ("#include <asio/post.hpp>", "may not use asio"),
            ("#include <toml++/toml.h>", "may not use toml"),
            ("#include <boost/any.hpp>", "no library"),
            ('#include "node.h"', 'write "dedloc/dht/node.h"'),
            ("auto x = asio::post(e);", "asio may not be named"),
            ("#include <gtest/gtest.h>", "may not use gtest"),
        ):
            with self.subTest(line=line):
                found = self.source_problems("// purpose\n" + line + "\n")
                self.assertEqual(len(found), 1, found)
                self.assertIn("node.cpp:2: ", found[0])
                self.assertIn(word, found[0])

    def test_names_in_comments_and_strings_do_not_count(self):
        self.assertEqual(self.source_problems('// asio::x\nauto s = "asio::y"; /* asio:: */\n'), [])

    def test_tests_may_use_more(self):
        text = '#include <gtest/gtest.h>\n#include "dedloc/sim/world.h"\n'
        self.assertEqual(self.source_problems(text, "src/dedloc/dht/node_test.cpp"), [])

    def test_what_is_for_tests_only_is_included_by_tests_only(self):
        line = '#include "dedloc/dht/host_testing.h"\n'
        self.assertEqual(self.source_problems(line, "src/dedloc/dht/node_test.cpp"), [])
        self.assertEqual(self.source_problems(line, "src/dedloc/dht/other_testing.h"), [])
        self.assertIn("for tests only", self.source_problems(line)[0])

    def test_a_library_may_belong_to_one_file(self):
        text = "#include <toml++/toml.h>\n"
        self.assertEqual(self.source_problems(text, "src/dedloc/dht/run_file.cpp"), [])

    def test_a_module_that_the_table_does_not_know_is_found(self):
        self.assertIn("not in tools/layers.toml", self.source_problems("", "src/dedloc/x/a.h")[0])

    def test_cmake_may_not_link_more_than_the_table_allows(self):
        self.cmake("dht", "MODULES base runtime cli")
        self.assertIn("MODULES names cli", self.problems()[0])

    def test_cmake_must_link_what_is_included(self):
        self.cmake("dht", "MODULES base")
        found = self.source_problems('#include "dedloc/runtime/task.h"\n')
        self.assertIn("MODULES does not link it", found[0])

    def test_an_interface_needs_no_link(self):
        self.cmake("dht", "MODULES base")
        self.write("tools/layers.toml",
                   TABLE + '[interfaces]\nheaders = ["runtime/task.h"]\n')
        self.assertEqual(self.source_problems('#include "dedloc/runtime/task.h"\n'), [])
        self.assertNotEqual(self.source_problems('#include "dedloc/runtime/real.h"\n'), [])

    def test_nobody_includes_a_composition_root(self):
        for line, name in (('#include "tests/lab.h"\n', "src/dedloc/dht/node.cpp"),
                           ('#include "tests/lab.h"\n', "src/dedloc/cli/main.cpp"),
                           ('#include "tests/sim/run.h"\n', "tests/other.cpp"),
                           ('#include "tests/other.h"\n', "tests/sim/run.cpp"),
                           ('#include "experiments/paper.h"\n', "tests/sim/run.cpp"),
                           ('#include "experiments/paper.h"\n', "src/dedloc/dht/node.cpp"),
                           ('#include "dedloc/cli/main.h"\n', "tests/other.cpp")):
            with self.subTest(line=line, name=name):
                self.assertEqual(len(self.source_problems(line, name)), 1)
        self.assertEqual(self.source_problems('#include "tests/lab.h"\n', "tests/other.cpp"), [])
        line = '#include "tests/sim/run.h"\n'
        self.assertEqual(self.source_problems(line, "tests/sim/run.cpp"), [])
        self.assertEqual(self.source_problems(line, "experiments/paper.cpp"), [])

    def test_a_cycle_in_the_table_is_refused(self):
        self.write("tools/layers.toml",
                   TABLE.replace('[modules.base]\nmodules = []',
                                 '[modules.base]\nmodules = ["dht"]'))
        with self.assertRaises(TableError):
            self.problems()
        self.assertEqual(main(["--root", str(self.root)]), 2)

    def test_the_exit_status_tells(self):
        self.assertEqual(main(["--root", str(self.root)]), 0)
        self.write("src/dedloc/dht/node.cpp", '#include "dedloc/sim/world.h"\n')
        self.assertEqual(main(["--root", str(self.root)]), 1)


if __name__ == "__main__":
    unittest.main()
