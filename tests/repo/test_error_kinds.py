"""Error kinds have one list, base/result.h: the C interface numbers them in its order, from 1, and
the Python package knows what each of them raises."""

from __future__ import annotations

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "dedloc"))
import errors  # noqa: E402  (alone: the package itself loads the library)


def enumerators(path: str, head: str) -> list[str]:
    """The words of an enum's body, without comments."""
    source = (ROOT / path).read_text(encoding="utf-8")
    body = source[source.index(head) + len(head):]
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", body[:body.index("}")], flags=re.DOTALL)
    return [word.strip() for word in body.split(",") if word.strip()]


class ErrorKindsTest(unittest.TestCase):
    def test_the_c_interface_has_the_kinds_of_result_h_in_its_order(self):
        kinds = enumerators("src/dedloc/base/result.h", "enum class ErrorKind {")
        in_c = enumerators("src/dedloc/c_api/dedloc.h", "enum dedloc_error_kind {")
        wanted = ["DEDLOC_OK = 0"]
        wanted += [f"DEDLOC_{kind.upper()} = {number}" for number, kind in enumerate(kinds, 1)]
        self.assertEqual(in_c, wanted)

    def test_python_has_an_exception_for_each_kind(self):
        kinds = enumerators("src/dedloc/base/result.h", "enum class ErrorKind {")
        self.assertEqual(sorted(errors._KINDS), list(range(1, len(kinds) + 1)))
        for number in errors._KINDS:
            self.assertIsNot(type(errors.error_of(number, "why")), errors.DedlocError)


if __name__ == "__main__":
    sys.exit(unittest.main())
