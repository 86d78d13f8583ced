"""tools/reference.py: what it reads in visit(), members, events and HELP texts."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import reference  # noqa: E402 (the folder is not a package)

HEADER = """
struct BatchConfig {
    std::uint64_t target = 1024;  // samples of all
    // Samples of one peer;
    // or none.
    std::uint64_t micro = micro_auto;
    Duration wait = std::chrono::seconds(10);

    bool is_set() const { return target != 0; }
};
"""
STRUCT = """
inline constexpr std::string_view own_source = "own";
template <typename Visitor, typename Self>
void visit_files(Visitor& visit, Self& self) {
    visit("hash", self.hash, Text{.bytes_max = 64}, "none: "
          "not compared");
}

struct TextKeys {
    std::string hash;  // of all
    std::string source = own_source;
    bool tied = true;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        const Integers side{4, 1u << 20};
        visit_files(visit, self);
        visit("source", self.source, Choice{{"own", "run"}});
        visit("side", self.side, side);
        visit("tied", self.tied, std::string_view("true: (of a, b) one"));
    }
};
"""


class Reference(unittest.TestCase):
    def test_arguments_end_at_commas_outside_brackets_and_strings(self) -> None:
        call = 'visit("a, b", run.x, Integers{1, f(2, 3)}, "c)")'
        self.assertEqual(reference.arguments_at(call, 5),
                         ['"a, b"', "run.x", "Integers{1, f(2, 3)}", '"c)"'])

    def test_rules_become_words(self) -> None:
        self.assertEqual(reference.values_of("Integers{0, steps_max}"), "an integer, 0 to 2^40")
        self.assertEqual(reference.values_of("Integers{}"), "an integer")
        self.assertEqual(reference.values_of("Integers{.min = 4096}"), "an integer, at least 4096")
        self.assertEqual(reference.values_of('Choice{{"a", "b"}}'), '"a" "b"')
        self.assertEqual(reference.values_of("NumbersOrAuto{1, 2}"), 'a number, 1 to 2 or "auto"')
        self.assertEqual(reference.values_of(""), "true or false")

    def test_members_have_defaults_and_the_comment_beside_or_above(self) -> None:
        members = reference.members_of(HEADER, "BatchConfig")
        self.assertEqual(members["target"], ("1024", "samples of all"))
        self.assertEqual(members["micro"], ("micro_auto", "Samples of one peer; or none."))
        self.assertEqual(reference.default_text(members["wait"][0]), '"10s"')
        self.assertEqual(reference.default_text(members["micro"][0]), '"auto"')

    def test_keys_of_a_section_follow_shared_lists_and_named_rules(self) -> None:
        keys = {key.name: key for key in reference.keys_of_struct(STRUCT, "TextKeys")}
        self.assertEqual(list(keys), ["hash", "source", "side", "tied"])
        self.assertEqual(keys["hash"].meaning, "none: not compared")
        self.assertEqual(keys["source"].default, '"own"')
        self.assertEqual(keys["side"].rule, "an integer, 4 to 2^20")
        self.assertEqual((keys["tied"].rule, keys["tied"].meaning),
                         ("true or false", "true: (of a, b) one"))

    def test_the_code_gives_every_section(self) -> None:
        root = Path(__file__).resolve().parents[2]
        names = [key.name for key in reference.core_keys(root)]
        self.assertEqual(len(names), len(set(names)))
        for name in ("name", "batch.target", "schedule.peak", "averaging.codec", "robust.tau"):
            self.assertIn(name, names)
        sections = {section for section, _, _ in reference.task_sections(root)}
        self.assertLessEqual({"text", "albert", "swav", "experts"}, sections)
        self.assertGreater(len(reference.events(root)), 50)
        self.assertGreater(len(reference.metrics(root)), 20)

    def test_every_event_is_explained(self) -> None:
        root = Path(__file__).resolve().parents[2]
        page = (root / "docs/events.md").read_text(encoding="utf-8")
        for line in reference.events(root)[2:]:
            kind = line.split("|")[1].strip()
            self.assertIn(kind, page)


if __name__ == "__main__":
    unittest.main()
