"""The limits of dedloc as a page, from the sources: every constant whose name ends in _max or _min,
what it is, why it is so, and where.

    tools/limits.py    prints the page (Markdown); exit status 1 if a file has a limit twice
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root, source_files  # noqa: E402

_CONSTANT = re.compile(
    r"^(?:inline |static )*constexpr\s+(?P<type>[\w:<>]+)\s+(?P<name>\w+_(?:max|min))"
    r"\s*(?:=\s*(?P<value>[^;]+)|\{(?P<braced>[^}]*)\});(?P<trail>[ \t]*//.*)?", re.MULTILINE)
HEAD = """# Limits

Whatever a peer, a file or a user can make grow has a bound with a name. When a limit is hit, the
request is refused, or the connection ended, with a sentence; memory does not grow.

"""


def comment_above(lines: list[str], index: int) -> str:
    words: list[str] = []
    while index >= 0 and lines[index].strip().startswith("//"):
        words.insert(0, lines[index].strip().lstrip("/").strip())
        index -= 1
    text = " ".join(words)
    return "" if text.startswith("---") else text


def limits_of(path: Path) -> list[tuple[str, str, str]]:
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    out = []
    for match in _CONSTANT.finditer(source):
        at = source.count("\n", 0, match.start())
        above = comment_above(lines, at - 1)
        trail = (match["trail"] or "").strip().lstrip("/ ").strip()
        value = re.sub(r"\s+", " ", match["value"] or match["braced"] or "").strip()
        reason = " ".join(x for x in (above, trail) if x).replace("|", "\\|")
        if len(reason) > 220:  # the header says the rest
            reason = reason[:220].rsplit(" ", 1)[0] + " …"
        out.append((match["name"], value, reason))
    return out


def page(root: Path) -> str:
    modules: dict[str, list[str]] = {}
    for path in source_files(root, ("src/dedloc",)):
        if path.stem.endswith(("_test", "_fuzz", "_bench")):
            continue
        module = path.relative_to(root / "src" / "dedloc").parts[0]
        for name, value, reason in limits_of(path):
            modules.setdefault(module, []).append(
                f"| `{name}` | `{value}` | {reason} | `{path.relative_to(root / 'src')}` |")
    parts = [HEAD.rstrip("\n")]
    for module, rows in modules.items():
        parts.append(f"\n## {module}\n\n| limit | value | why | where |\n|---|---|---|---|\n"
                     + "\n".join(rows))
    return "\n".join(parts) + "\n"


def main() -> int:
    text = page(repository_root())
    print(text, end="")
    found = re.findall(r"^\| `(\w+)` \| `[^`]*` \| .* \| `dedloc/(\S+)` \|$", text, re.MULTILINE)
    twice = sorted({f"{name} in {path}" for name, path in found if found.count((name, path)) > 1})
    for one in twice:
        print(f"two limits are named {one}", file=sys.stderr)
    return 1 if twice or not found else 0


if __name__ == "__main__":
    sys.exit(main())
