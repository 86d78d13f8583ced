"""Names the tests that ctest skipped, and why: most want a package that is not here.

    tools/skipped_tests.py RESULTS      what `ctest --output-junit RESULTS` wrote

A test says its reason itself: unittest's skipTest(…), GoogleTest's GTEST_SKIP() << …, or the last
line of a script that ends with 77. Exit status: 0, also where there is no such file.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree
from pathlib import Path

REASON_CHARACTERS_MAX = 200


def reason_in(output: str) -> str:
    """The reason that a skipped test gives in what it printed."""
    of_unittest = re.findall(r"\.\.\. skipped (['\"])(.*)\1\s*$", output, re.MULTILINE)
    if of_unittest:
        return of_unittest[-1][1]
    of_googletest = re.search(r": Skipped\n(.+)\n", output)
    if of_googletest:
        return of_googletest[1].strip()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("[", "Note:"))]
    return said[-1] if said else "it does not say why"


def skipped_in(results: str) -> list[tuple[str, str]]:
    """Names of the tests that were skipped, and their reasons."""
    root = xml.etree.ElementTree.fromstring(results)
    return [(case.get("name", ""), reason_in(case.findtext("system-out") or ""))
            for case in root.iter("testcase") if case.find("skipped") is not None]


def told(skipped: list[tuple[str, str]]) -> str:
    """One line a reason, which several tests may have."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped:
        by_reason.setdefault(reason[:REASON_CHARACTERS_MAX], []).append(name)
    lines = [f"{len(skipped)} tests were skipped:" if len(skipped) > 1 else "1 test was skipped:"]
    lines += [f"  {', '.join(names)}: {reason}" for reason, names in by_reason.items()]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(arguments[0])
    if not path.is_file():
        return 0
    try:
        skipped = skipped_in(path.read_text(encoding="utf-8", errors="replace"))
    except xml.etree.ElementTree.ParseError as error:
        print(f"which tests were skipped cannot be read in {path}: {error}", file=sys.stderr)
        return 0
    if skipped:
        print(told(skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
