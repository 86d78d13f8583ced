"""tidy finds each rule's breach, and leaves the places alone where a name is at home."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from tidy import check_text, main, repository_files  # noqa: E402

HEAD = "// A thing.\n"
NAME = "src/dedloc/dht/thing.cpp"


def rules(text, name=NAME):
    return [problem.split(": ")[1] for problem in check_text(name, text)]


def function_of(lines):
    return HEAD + "int f(int a) {\n" + "    ++a;\n" * (lines - 2) + "}\n"


class Tidy(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(rules(HEAD + "x" * 100 + "\n"), [])
        self.assertEqual(rules(HEAD + "x" * 101 + "\n"), ["long-line"])

    def test_functions(self):
        self.assertEqual(rules(function_of(70)), [])
        self.assertEqual(rules(function_of(71)), ["long-function"])
        self.assertEqual(rules(function_of(80), "src/dedloc/dht/thing_test.cpp"), [])
        self.assertEqual(rules(function_of(81), "src/dedloc/dht/thing_test.cpp"),
                         ["long-function"])

    def test_long_functions_are_found_in_classes_and_after_constructors(self):
        body = "    ++a;\n" * 70
        for text in (
            "namespace a {\nstruct B : C {\nint f() const override {\n" + body + "}\n};\n}\n",
            "A::A(int x) : a_(x), b_{x} {\n" + body + "}\n",
            "auto f(int a) -> Task<Result<int>> {\n" + body + "}\n",
            "TEST(A, b) {\n" + body + "    g([](int a) {\n" + body + "});\n}\n",
        ):
            with self.subTest(text=text[:60]):
                self.assertEqual(rules(HEAD + text), ["long-function"])

    def test_a_long_class_is_no_long_function(self):
        members = "".join(f"    int f{i}() {{ return {i}; }}\n" for i in range(100))
        self.assertEqual(rules(HEAD + "namespace a {\nclass B final : public C<int> {\n" + members
                               + "};\nconst int t[] = {\n" + "    1,\n" * 100 + "};\n}\n"), [])

    def test_banned_names(self):
        for line in (
            "auto t = std::chrono::steady_clock::now();",
            "auto t = system_clock::now();",
            "std::random_device d;",
            "int x = rand();",
            "std::uniform_int_distribution<int> d;",
            "std::this_thread::sleep_for(1s);",
            "std::thread t(f);",
            "std::exit(1);",
            "assert(x);",
        ):
            with self.subTest(line=line):
                self.assertEqual(rules(HEAD + line + "\n"), ["banned"])

    def test_names_that_only_look_banned(self):
        for line in (
            "static_assert(x);",
            "// std::thread t; rand();",
            'log("rand() of std::thread");',
            "auto n = std::thread::hardware_concurrency();",
            "clock.sleep_for(1s); my_rand(); brand(); x.exit(1); a->abort();",
            "std::thread t(f);  // NOLINT(tidy)",
        ):
            with self.subTest(line=line):
                self.assertEqual(rules(HEAD + line + "\n"), [])

    def test_names_at_home(self):
        self.assertEqual(rules(HEAD + "std::thread t(f);\n", "src/dedloc/runtime/a.cpp"), [])
        self.assertEqual(rules(HEAD + "x = steady_clock::now();\n", "experiments/a.cpp"), [])

    def test_tests_may_start_threads_and_fuzz_targets_may_stop(self):
        self.assertEqual(rules(HEAD + "std::thread t(f);\n", "src/dedloc/dht/a_test.cpp"), [])
        self.assertEqual(rules(HEAD + "std::abort();\n", "src/dedloc/dht/a_fuzz.cpp"), [])
        self.assertEqual(rules(HEAD + "rand();\n", "src/dedloc/dht/a_test.cpp"), ["banned"])

    def test_marks_and_paths(self):
        self.assertEqual(rules(HEAD + "// TODO" + "(now): x\n"), ["todo"])
        self.assertEqual(rules("see /" + "work/main/x\n", "docs/a.md"), ["private-path"])
        self.assertEqual(rules("see /framework/x and a/work" + "/b\n", "docs/a.md"), [])
        self.assertEqual(rules("<" * 7 + " HEAD\n", "docs/a.md"), ["conflict"])

    def test_comments_have_a_subject_and_a_verb(self):
        for line in ("// Who votes twice is refused.", "int a = 0;  // Of all peers.",
                     "/// What a plan holds."):
            self.assertEqual(rules(HEAD + line + "\n"), ["headless"])
        for line in ("// A peer that votes twice is refused.", "// Who should compute?",
                     "// Whole rounds, what they cost."):
            self.assertEqual(rules(HEAD + line + "\n"), [])

    def test_python_must_be_python(self):
        self.assertEqual(rules("first = 1\nX Y\n", "tools/a.py"), ["syntax"])
        self.assertEqual(rules("first = 1\n", "tools/a.py"), [])
        self.assertEqual(rules("X Y\n", "docs/a.md"), [])

    def test_a_block_of_comments_begins_with_a_noun(self):
        for line in ("// Whoever was refused will be again.", "// It remembers tokens.",
                     "    // Those in force.", "// One that lives, by chance."):
            self.assertEqual(rules(HEAD + "int i;\n" + line + "\n"), ["headless"])
        for lines in ("// A peer asks.\n// It gets an answer.", "// One row of the table.",
                      "// He et al. 1502.01852", "int i;  // It counts."):
            self.assertEqual(rules(HEAD + "int i;\n" + lines + "\n"), [])

    def test_headers_say_what_they_are(self):
        self.assertEqual(rules("#pragma once\n", "src/dedloc/dht/a.h"), ["header-comment"])
        self.assertEqual(rules(HEAD + "#pragma once\n", "src/dedloc/dht/a.h"), [])

    def test_an_unpacked_archive_is_read_as_it_lies_there(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".gitignore").write_text("/build/\n__pycache__/\n*.pyc\n/demo-run*/\n")
            for name in ("src/a.cpp", "src/build/b.cpp", "build/c.cpp", "demo-run1/d.cpp",
                         "src/__pycache__/e.cpp", "src/f.pyc", ".ci/run"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(HEAD)
            wanted = {".ci/run", ".gitignore", "src/a.cpp", "src/build/b.cpp"}
            self.assertEqual({str(p.relative_to(root)) for p in repository_files(root)}, wanted)
            # A folder that git does not take for a clone.
            (root / ".git").mkdir()
            self.assertEqual({str(p.relative_to(root)) for p in repository_files(root)}, wanted)
            (root / "src/a.cpp").write_text(HEAD + "int x = rand();\n")
            self.assertEqual(main(["--root", folder]), 1)

    def test_the_exit_status_tells(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.cpp"
            path.write_text(HEAD)
            self.assertEqual(main(["--root", folder, str(path)]), 0)
            path.write_text(HEAD + "int x = rand();\n")
            self.assertEqual(main(["--root", folder, str(path)]), 1)


if __name__ == "__main__":
    unittest.main()
