"""Documents that stay true: links and file names in Markdown exist, marked commands run.

  link     [text](relative/path#anchor) names a file of the repository
  path     `src/dedloc/base/bytes.h`, `tools/x.py`, … in backticks exists (`*` and {a,b} allowed)
  command  a ```sh block right under a line `<!-- run -->` ends with status 0 within 3 minutes,
           run by bash in the root of the repository

    tools/check_docs.py [--root FOLDER] [--no-run]
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root  # noqa: E402

COMMAND_SECONDS_MAX = 180
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FOLDERS = "src|tools|docs|tests|bench|cmake|examples|experiments|python|\\.ci"
_PATH = re.compile(rf"`(?:\./)?((?:{_FOLDERS})/[\w./*{{}},-]+|\./\w+\.sh|[A-Z]\w+\.md)`")
_RUN = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def expand(pattern: str) -> list[str]:
    """a/{b,c}.h -> a/b.h, a/c.h"""
    pieces = re.split(r"\{([^}]*)\}", pattern)
    choices = [p.split(",") if i % 2 else [p] for i, p in enumerate(pieces)]
    return ["".join(c) for c in itertools.product(*choices)]


def exists(folder: Path, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return (any(True for _ in folder.glob(pattern)) if "*" in pattern
            else (folder / pattern).exists())


def check_page(root: Path, page: Path, run: bool) -> list[str]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(root)
    prose = _CODE.sub(lambda m: "\n" * m.group().count("\n"), text)
    found = []
    for match in _LINK.finditer(prose):
        target = match[1].split("#")[0]
        if target and "://" not in target and not target.startswith("mailto:"):
            if not exists(page.parent, target):
                found.append(f"{name}:{line_of(prose, match.start())}: link: {match[1]} is nowhere")
    for match in _PATH.finditer(prose):
        for path in expand(match[1]):
            if not exists(root, path):
                found.append(f"{name}:{line_of(prose, match.start())}: path: {path} is nowhere")
    for match in _RUN.finditer(text) if run else ():
        problem = run_block(root, match[1])
        if problem:
            found.append(f"{name}:{line_of(text, match.start())}: command: {problem}")
    return found


def run_block(root: Path, block: str) -> str:
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return f"took longer than {COMMAND_SECONDS_MAX} s"
    if done.returncode == 0:
        return ""
    last = (done.stderr or done.stdout).strip().split("\n")[-1]
    return f"exit status {done.returncode}: {last}"


def pages_of(root: Path) -> list[Path]:
    folders = ("docs", "bench", "examples", "experiments", "tests", "src", "python")
    inner = [p for f in folders if (root / f).is_dir() for p in (root / f).rglob("*.md")]
    return sorted([*root.glob("*.md"), *inner])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=repository_root())
    parser.add_argument("--no-run", action="store_true", help="only look at links and paths")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    pages = pages_of(root)
    found = [f for page in pages for f in check_page(root, page, not options.no_run)]
    for problem in found:
        print(problem)
    if not found:
        print(f"{len(pages)} pages: links, names and commands hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
