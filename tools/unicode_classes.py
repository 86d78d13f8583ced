"""Writes src/dedloc/text/unicode_classes.cpp: which characters are letters, which are numbers.

The tables are of Unicode 14, as the `tokenizers` package has them; Python 3.11 knows that version.

    python3.11 tools/unicode_classes.py > src/dedloc/text/unicode_classes.cpp
"""

from __future__ import annotations

import sys
import unicodedata

_HEAD = """// Made by tools/unicode_classes.py; not edited by hand.

#include "dedloc/text/unicode_classes.h"

#include <algorithm>
#include <iterator>

namespace dedloc::text {

namespace {

struct CodeRange {
    char32_t first;
    char32_t last;
};
"""

_TAIL = """
template <std::size_t count>
bool is_in(const CodeRange (&ranges)[count], char32_t code) {
    const CodeRange* found = std::upper_bound(
        std::begin(ranges), std::end(ranges), code, [](char32_t value, const CodeRange& range) {
            return value < range.first;
        });
    return found != std::begin(ranges) && code <= std::prev(found)->last;
}

}  // namespace

bool is_letter(char32_t code) { return is_in(letter_ranges, code); }

bool is_number(char32_t code) { return is_in(number_ranges, code); }

}  // namespace dedloc::text
"""


def ranges_of(major: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != major:
            continue
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def table(name: str, ranges: list[tuple[int, int]]) -> str:
    lines = ["    "]
    for first, last in ranges:
        item = f"{{{first:#x}, {last:#x}}},"
        if len(lines[-1]) + 1 + len(item) > 100:
            lines.append("    ")
        lines[-1] += item if lines[-1].isspace() else " " + item
    body = "\n".join(lines)
    head = f"\n// clang-format off\nconstexpr CodeRange {name}[] = {{\n"
    return head + body + "\n};\n// clang-format on\n"


def main() -> int:
    if unicodedata.unidata_version != "14.0.0":
        print(f"Unicode 14 is wanted, not {unicodedata.unidata_version}", file=sys.stderr)
        return 1
    print(_HEAD + table("letter_ranges", ranges_of("L")) + table("number_ranges", ranges_of("N"))
          + _TAIL, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
