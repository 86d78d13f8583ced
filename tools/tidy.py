"""The rules that a compiler does not know, read from the repository's own text.

  long-line      a line of more than 100 columns
  long-function  a function of more than 70 lines (80 in tests)
  banned         a name that breaks virtual time, repeatability or the thread rules, with what to
                 use instead; not in the modules that implement it
  todo           the word TODO with "now" in brackets: finish it before the commit
  header-comment a source file that does not begin by saying what it is
  private-path   a path of somebody's own machine
  conflict       a merge marker
  syntax         a Python file that Python cannot read
  headless       a comment that begins with Who, What or Of, or a block of comments that begins
                 with a pronoun (It, Those, Whoever, One that …): write a noun and a verb

    tools/tidy.py [--root FOLDER] [FILE...]      default: every file that git tracks or would add;
                                                 without git, all that .gitignore does not name

A line that ends with `// NOLINT(tidy)` is left alone. Exit status: 0 clean, 1 not.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import (  # noqa: E402
    SOURCE_SUFFIXES, code_lines, functions, repository_root, tree)

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
TEST_FUNCTION_LINES_MAX = 80
# Spelled in two pieces, so that this file passes its own check.
PRIVATE = re.compile(r"(?<![\w.])/" + r"(?:work|home/[a-z]\w*|Users/\w+)/")
TODO_NOW = "TODO" + "(now)"
# A question to the reader ("Who should compute?") is a sentence.
HEADLESS = re.compile(r"(?://|#)\s+(?:Who|What|Of)\b(?!.*\?)|^\s*\"\"\"(?:Who|What|Of)\b(?!.*\?)")
# At the beginning of a block of comments a reader would have to guess what these stand for.
PRONOUN = re.compile(
    r"\s*(?://|#)\s+(?:Whoever|Whom|Whose|Whatever|Those|These|They|It|That|Their|Its|Theirs|Ours|"
    r"He(?! et al)|She|Him|One (?:that|who|whose|which|is|was|has|may|can|more))\b(?!.*\?)")
COMMENT = re.compile(r"\s*(?://|#)(?:\s|$)")
CONFLICT = re.compile(r"^(<{7}|>{7}) ")
LONG_LINES_IN = (*SOURCE_SUFFIXES, ".py", ".sh", ".toml")


@dataclass
class Ban:
    pattern: str
    instead: str
    # Folders (relative, with /) and files where the name is at home.
    home: tuple[str, ...]
    in_tests: bool = True  # False: *_test.cpp, *_fuzz.cpp and tests/ may use it


# Programs that stand outside virtual time: what they measure is the real machine.
PROGRAMS = ("src/dedloc/cli/", "src/dedloc/peer/", "experiments/", "examples/", "bench/",
            "tests/common/", "tests/sim/", "tests/process/", "tests/netns/", "tests/lab/")
BANS = (
    Ban(r"steady_clock::now|system_clock::now|high_resolution_clock::now|\bclock_gettime\b",
        "a runtime::Clock that was passed in",
        # tasks: the synthetic task pretends to compute for so long, on the trainer's thread.
        # web: browsers are outside virtual time; what a store is told has the times of its events.
        ("src/dedloc/runtime/", "src/dedloc/base/log.cpp", "src/dedloc/tasks/synthetic",
         "src/dedloc/web/", "src/dedloc/api/")),
    Ban(r"\brandom_device\b|\bmt19937(_64)?\b", "a base::Random that was passed in, or "
        "security::secure_random for secrets", ("src/dedloc/security/",)),
    Ban(r"(?<![\w.:>])s?rand\s*\(|\bstd::s?rand\b", "base::Random", ()),
    Ban(r"\bstd::\w+_distribution\b", "base::Random: standard distributions differ between "
        "libraries", ()),
    Ban(r"this_thread::sleep_(for|until)|(?<![\w.:>])u?sleep\s*\(",
        "co_await clock.sleep_for(duration)",
        ("src/dedloc/runtime/", "src/dedloc/tasks/synthetic", "src/dedloc/web/http_front.cpp")),
    Ban(r"\bstd::j?thread\b(?!::(?:hardware_concurrency|id))|\bstd::async\b|\bpthread_create\b",
        "runtime::Workers", ("src/dedloc/runtime/", "src/dedloc/train/", "src/dedloc/tasks/",
                             "src/dedloc/monitor/", "src/dedloc/web/", "src/dedloc/api/",
                             "src/dedloc/c_api/loop_page",
                             "src/dedloc/collab/node.cpp",
                             "src/dedloc/fleet/notice_watch",
                             "src/dedloc/text/prefetch", "src/dedloc/images/read_ahead"),
        in_tests=False),
    Ban(r"\bstd::(abort|exit|quick_exit|terminate)\b|(?<![\w.:>])_?exit\s*\(",
        "an Error, or DEDLOC_CHECK for our own bugs",
        ("src/dedloc/base/check.cpp", "src/dedloc/runtime/"), in_tests=False),
    Ban(r"(?<!static_)(?<!\w)assert\s*\(", "DEDLOC_CHECK", ()),
)


def repository_files(root: Path) -> list[Path]:
    """All that git tracks or would add; all that lies there where git is missing, or refuses (an
    unpacked archive, somebody else's clone)."""
    if shutil.which("git") is None or not (root / ".git").exists():
        return files_in_folder(root)
    done = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return files_in_folder(root)
    return sorted(p for p in (root / name for name in done.stdout.split("\0") if name)
                  if p.is_file())


def files_in_folder(root: Path) -> list[Path]:
    """All but .git and what .gitignore names: a plain name or pattern, at the top after a slash."""
    ignored = []
    if (root / ".gitignore").is_file():
        ignored = (root / ".gitignore").read_text(encoding="utf-8").split()
    anywhere = [".git", *(line.rstrip("/") for line in ignored if not line.startswith("/"))]
    on_top = [line.strip("/") for line in ignored if line.startswith("/")]
    files: list[Path] = []
    for folder, folders, names in os.walk(root):
        patterns = anywhere + on_top if Path(folder) == root else anywhere

        def stays(name: str, patterns: list[str] = patterns) -> bool:
            return not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

        folders[:] = [name for name in folders if stays(name)]
        files += [Path(folder) / name for name in names if stays(name)]
    return sorted(path for path in files if path.is_file())


def is_test(name: str) -> bool:
    return name.startswith("tests/") or re.search(r"_(test|bench|fuzz)\.cpp$", name) is not None


def check_text(name: str, source: str) -> list[str]:
    found: list[str] = []

    def add(line: int, rule: str, text: str) -> None:
        found.append(f"{name}:{line}: {rule}: {text}")

    lines = source.split("\n")
    is_code = name.endswith(LONG_LINES_IN)
    has_comments = is_code and "/repo/" not in name  # tests of the checks quote what they find
    above = ""
    for number, line in enumerate(lines, 1):
        if has_comments and PRONOUN.match(line) and not COMMENT.match(above):
            add(number, "headless", "a block of comments begins with a noun, not with a pronoun")
        above = line
        if is_code and len(line) > COLUMNS_MAX and "http" not in line:
            add(number, "long-line", f"{len(line)} columns; {COLUMNS_MAX} is the most")
        if TODO_NOW in line:
            add(number, "todo", f"{TODO_NOW} blocks a commit")
        if PRIVATE.search(line):
            add(number, "private-path", "a path of one machine does not belong in the repository")
        if has_comments and HEADLESS.search(line):
            add(number, "headless", "a comment wants a subject and a verb")
        if CONFLICT.match(line):
            add(number, "conflict", "a merge marker")
    if name.endswith(SOURCE_SUFFIXES):
        check_source(name, source, add)
    if name.endswith(".py"):
        try:
            ast.parse(source)
        except SyntaxError as error:
            add(error.lineno or 1, "syntax", error.msg)
    return [f for f in found if "NOLINT(tidy)" not in lines[int(f.split(":")[1]) - 1]]


def check_source(name: str, source: str, add) -> None:
    if name.endswith(".h") and not source.lstrip().startswith(("//", "/*")):
        add(1, "header-comment", "begin with one line that says what this file is")
    lines_max = TEST_FUNCTION_LINES_MAX if is_test(name) else FUNCTION_LINES_MAX
    for function in functions(tree(source)):
        if function.lines > lines_max:
            add(function.line, "long-function",
                f"{function.name} has {function.lines} lines; {lines_max} is the most")
    code = code_lines(source)
    for ban in BANS:
        if name.startswith((*ban.home, *PROGRAMS)) or (is_test(name) and not ban.in_tests):
            continue
        pattern = re.compile(ban.pattern)
        for number, line in enumerate(code, 1):
            match = pattern.search(line)
            if match and not line.lstrip().startswith("#"):
                add(number, "banned", f"{match.group().strip('( ')}: use {ban.instead}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=repository_root())
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    files = [f.resolve() for f in options.files] or repository_files(root)
    found: list[str] = []
    for path in files:
        try:
            source = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a corpus file or a picture
        found += check_text(str(path.relative_to(root)), source)
    for problem in found:
        print(problem)
    if not found:
        print(f"{len(files)} files are tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
