#!/usr/bin/env python3
"""Finds functions of one name in two files of a module whose arguments convert into each other's.

Sources of a module are compiled in batches and then share their unnamed namespaces
(cmake/DedlocCompiler.cmake). What is defined twice the compiler refuses; but of `peer(int)` in one
file and `peer(std::uint8_t)` in another a call silently takes the better match.

    tools/check_overloads.py [--root FOLDER]

Exit status: 0 clean, 1 not.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root  # noqa: E402

# The formatter sees to it that they begin and end like this.
_UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(
    r"^(?!TEST|struct|class|using|enum|static_assert|template|return|#|//|\})"
    r"[A-Za-z_][\w:<>&*, ]*?[ *&](\w+)\(([^()]*)\)", re.MULTILINE)
# Kinds of types within which a call's argument converts.
_KINDS = [re.compile(pattern) for pattern in (
    r"\b(bool|char|short|int|long|unsigned|float|double|(std::)?u?int\d+_t|(std::)?size_t)\b",
    r"\bstring(_view)?\b|const char\*",
    r"\bByte(s|View)\b|\bspan<const std::uint8_t>")]


def kind_of(parameter: str) -> object:
    """Says what an argument for it may also be an argument for; the type itself, if nothing."""
    words = parameter.split("=")[0].strip()
    if "<" not in words or "span" in words:
        for kind in _KINDS:
            if kind.search(words):
                return kind.pattern
    return re.sub(r"\s*\w+$", "", words).replace("const ", "").rstrip("& ")


def parameters_of(text: str) -> list[str]:
    text = " ".join(text.split())
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    last = text[begin:].strip()
    return parts + ([last] if last else [])


def functions_of(file: Path) -> list[tuple[str, tuple]]:
    found = []
    for part in _UNNAMED.findall(file.read_text()):
        for name, parameters in _FUNCTION.findall(part):
            found.append((name, tuple(kind_of(p) for p in parameters_of(parameters))))
    return found


def problems(root: Path) -> list[str]:
    modules: dict[tuple[Path, bool], dict[str, list]] = defaultdict(lambda: defaultdict(list))
    patterns = ("src/dedloc/*/*.cpp", "tests/*/*.cpp", "experiments/*.cpp")
    files = [file for pattern in patterns for file in root.glob(pattern)]
    for file in sorted(files):
        if file.stem.endswith(("_fuzz", "_bench")):
            continue
        for name, kinds in functions_of(file):
            modules[file.parent, file.stem.endswith("_test")][name].append((file, kinds))
    found = []
    for functions in modules.values():
        for name, places in functions.items():
            for (one, kinds), (other, other_kinds) in combinations(places, 2):
                if one != other and kinds == other_kinds:
                    found.append(f"{one.relative_to(root)} and {other.relative_to(root)}: both "
                                 f"have a {name}() that takes such arguments; rename one")
    return sorted(set(found))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=repository_root())
    found = problems(parser.parse_args(arguments).root.resolve())
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print("no function of one file is in the way of another's")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
