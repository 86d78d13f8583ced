"""check_overloads finds calls that a batch of sources would send elsewhere, and no others."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check_overloads import problems  # noqa: E402

FILE = "namespace dedloc::p2p {{\nnamespace {{\n{}\n}}  // namespace\n}}  // namespace\n"


class CheckOverloads(unittest.TestCase):
    def found(self, one: str, other: str, other_name: str = "two.cpp") -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            module = Path(folder) / "src/dedloc/p2p"
            module.mkdir(parents=True)
            (module / "one.cpp").write_text(FILE.format(one))
            (module / other_name).write_text(FILE.format(other))
            return problems(Path(folder))

    def test_numbers_of_two_types_are_found(self):
        (line,) = self.found("PeerId peer(int number) {\n}",
                             "PeerId peer(std::uint8_t number) {\n}")
        self.assertIn("one.cpp", line)
        self.assertIn("two.cpp", line)
        self.assertIn("peer()", line)

    def test_words_of_two_types_are_found_beside_other_parameters(self):
        self.assertEqual(len(self.found(
            "bool is(const Host& host,\n        const std::string& name) {\n}",
            "bool is(const Host& h, std::string_view name) {\n}")), 1)

    def test_other_types_other_counts_and_the_tests_of_a_module_are_not(self):
        for other in ("Json json_of(const Plan& plan) {\n}",
                      "Json json_of(const Row& row, int) {\n}"):
            self.assertEqual(self.found("Json json_of(const Row& row) {\n}", other), [])
        self.assertEqual(self.found("int f(int a) {\n}", "int f(long a) {\n}", "two_test.cpp"), [])

    def test_this_repository_has_none(self):
        self.assertEqual(problems(ROOT), [])


if __name__ == "__main__":
    unittest.main()
