"""Flags the co_await shapes that g++ 12 miscompiles or that leave dangling captures.

Rule for people: await names, not braces (CONTRIBUTING.md). Found are, in one full expression with
a co_await:
  braces      an initialiser in braces: f(Options{...}), f({...}), S{co_await g()}
  lambda      a lambda with captures
and apart from that:
  statement   ({ ... co_await ... }), an internal error of g++ 12
  catch       co_await in a catch block, which C++ forbids
  fiasco      a capturing lambda that is itself a coroutine and is called where it is written: the
              captures die with the lambda at the end of the statement, the coroutine lives on
A line that ends with `// NOLINT(coawait)` is left alone.

    tools/lint_coawait.py [FILE...]        default: every source of the tree

Prints FILE:LINE: rule: sentence. Exit status: 0 clean, 1 something found, 2 a file is unreadable.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import Group, Token, repository_root, source_files, tree  # noqa: E402

FOLDERS = ("src", "experiments", "examples", "tests", "bench")
Finding = tuple[int, str, str]


def _is_word(item: "Token | Group", *words: str) -> bool:
    return isinstance(item, Token) and item.kind == "name" and item.text in words


def _is_body(group: Group) -> bool:
    return group.opener == "{" and group.kind != "init"


def _awaits(items: list, through_bodies: bool) -> list[int]:
    """Lines of the co_awaits below, lambdas' bodies excepted."""
    lines: list[int] = []
    for item in items:
        if isinstance(item, Token):
            if _is_word(item, "co_await"):
                lines.append(item.line)
        elif not _is_body(item):
            lines += _awaits(item.items, through_bodies)
        elif through_bodies and item.kind != "lambda":
            lines += _awaits(item.items, through_bodies)
    return lines


class Linter:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def add(self, line: int, rule: str, text: str) -> None:
        if (line, rule, text) not in self.findings:
            self.findings.append((line, rule, text))

    def body(self, group: Group) -> None:
        """A list of statements (or declarations)."""
        statement: list = []
        for i, item in enumerate(group.items):
            if isinstance(item, Group) and _is_body(item) and item.kind != "lambda":
                self.statement(statement)
                if self._follows_catch(statement):
                    for line in _awaits(item.items, through_bodies=True):
                        self.add(line, "catch", "co_await in a catch block; note the error and "
                                                "await after the block")
                self.body(item)
                statement = []
            elif isinstance(item, Token) and item.text == ";":
                self.statement(statement)
                statement = []
            else:
                statement.append(item)
        self.statement(statement)

    @staticmethod
    def _follows_catch(statement: list) -> bool:
        return len(statement) >= 2 and _is_word(statement[-2], "catch")

    def statement(self, items: list) -> None:
        """Splits `if (a; b) c` into the full expressions a, b, c."""
        i = 0
        while i < len(items) and _is_word(items[i], "if", "while", "for", "switch", "else", "do"):
            i += 1
            if i < len(items) and _is_word(items[i], "constexpr"):
                i += 1
            if i < len(items) and isinstance(items[i], Group) and items[i].opener == "(":
                self.head(items[i])
                i += 1
        if i < len(items):
            self.expression(items[i:])

    def head(self, group: Group) -> None:
        part: list = []
        for item in group.items:
            if isinstance(item, Token) and item.text == ";":
                self.expression(part)
                part = []
            else:
                part.append(item)
        self.expression(part)

    def expression(self, items: list) -> None:
        awaits = _awaits(items, through_bodies=False)
        self.walk(items, awaits[0] if awaits else 0)

    def walk(self, items: list, await_line: int) -> None:
        for i, item in enumerate(items):
            if isinstance(item, Token):
                continue
            if item.opener == "(" and item.items and self._is_statement_expression(item):
                self.add(item.line, "statement", "a statement expression around co_await crashes "
                                                 "g++ 12; use a statement macro")
            if item.kind == "lambda":
                self.lambda_body(items, i, item, await_line)
            elif item.opener == "{" and _is_body(item):
                self.body(item)
            else:
                if item.opener == "{" and await_line:
                    what = ("co_await inside braces" if _awaits(item.items, False)
                            else "braces in an expression with co_await")
                    self.add(item.line, "braces", f"{what}: name the value on the line above")
                self.walk(item.items, await_line)

    @staticmethod
    def _is_statement_expression(group: Group) -> bool:
        first = group.items[0]
        if not isinstance(first, Group) or first.opener != "{" or len(group.items) != 1:
            return False
        has_semicolon = any(isinstance(t, Token) and t.text == ";" for t in first.items)
        return has_semicolon and bool(_awaits(first.items, through_bodies=True))

    def lambda_body(self, items: list, i: int, group: Group, await_line: int) -> None:
        if group.captures and await_line:
            self.add(group.line, "lambda", "a capturing lambda in an expression with co_await: "
                                           "name it on the line above")
        follows = items[i + 1] if i + 1 < len(items) else None
        called = isinstance(follows, Group) and follows.opener == "("
        if group.captures and called and self._is_coroutine(group):
            self.add(group.line, "fiasco", "a capturing lambda coroutine called in place: its "
                                           "captures die before it does; pass them as parameters")
        self.body(group)

    def _is_coroutine(self, group: Group) -> bool:
        for item in group.items:
            if _is_word(item, "co_await", "co_return", "co_yield"):
                return True
            if isinstance(item, Group) and item.kind != "lambda" and self._is_coroutine(item):
                return True
        return False


def lint(source: str) -> list[Finding]:
    linter = Linter()
    if "co_" not in source:  # reading takes most of the time
        return []
    linter.body(tree(source))
    lines = source.split("\n")
    return sorted(f for f in linter.findings if "NOLINT(coawait)" not in lines[f[0] - 1])


def main(arguments: list[str]) -> int:
    root = repository_root()
    files = [Path(a) for a in arguments] or source_files(root, FOLDERS)
    status = 0
    for path in files:
        try:
            findings = lint(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        for line, rule, text in findings:
            print(f"{path}:{line}: {rule}: {text}")
            status = 1
    if status == 0 and not arguments:
        print(f"{len(files)} files: no co_await shape that g++ 12 miscompiles")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
