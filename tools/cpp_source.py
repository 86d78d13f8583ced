"""Reads C++ just well enough for this repository's own checks: tokens with line numbers and a tree
of brackets in which every pair of braces is known to be a block, a body, a type or an initialiser.

Not a parser: no names are resolved, no macro is expanded, preprocessor lines are blank. What it
guesses wrong on odd code, the checks' own tests should show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SOURCE_SUFFIXES = (".h", ".cpp", ".cc")

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol>->\*?|::|<=>|&&|\|\||[-+*/%^&|!=<>]=|\+\+|--|<<|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


@dataclass
class Token:
    kind: str  # name, number, string, char, symbol
    text: str
    line: int


@dataclass
class Group:
    """Everything between two brackets. `kind` says what a pair of braces is."""

    opener: str  # ( [ { or "" for the whole file
    line: int
    end_line: int = 0
    # {: block (statements of control flow), function, lambda, type, namespace, init
    kind: str = ""
    # A lambda's introducer has captures (only for kind == lambda).
    captures: bool = False
    items: list["Token | Group"] = field(default_factory=list)


def tokens(source: str) -> list[Token]:
    source = _DIRECTIVE.sub(lambda m: "\n" * m.group().count("\n"), source)
    out: list[Token] = []
    line = 1
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "symbol"
        if kind == "delimiter":
            kind = "raw"
        text = match.group()
        if kind not in ("space", "comment"):
            out.append(Token("string" if kind == "raw" else kind, text, line))
        line += text.count("\n")
    return out


def code_lines(source: str) -> list[str]:
    """The lines of a file with comments and the insides of strings blanked."""
    pieces: list[str] = []
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind == "comment":
            pieces.append(re.sub(r"[^\n]", " ", text))
        elif kind in ("string", "raw", "delimiter", "char"):
            pieces.append('"' + re.sub(r"[^\n]", " ", text[1:-1]) + '"')
        else:
            pieces.append(text)
    return "".join(pieces).split("\n")


_CLOSER = {"(": ")", "[": "]", "{": "}"}
_BEFORE_BODY = {"const", "noexcept", "override", "final", "mutable", "&", "&&", "try"}
_TYPE_WORDS = {"struct", "class", "union", "enum"}
_CONTROL = {"if", "for", "while", "switch", "catch"}


def _text(item: "Token | Group | None") -> str:
    if item is None:
        return ""
    return item.text if isinstance(item, Token) else item.opener + _CLOSER.get(item.opener, "")


def is_lambda_introducer(items: list, index: int) -> bool:
    """items[index] is a [...] group: does it begin a lambda (and not index, attribute, array)?"""
    group = items[index]
    if not isinstance(group, Group) or group.opener != "[":
        return False
    if len(group.items) == 1 and isinstance(group.items[0], Group) and group.items[0].opener == "[":
        return False  # [[attribute]]
    before = items[index - 1] if index > 0 else None
    if before is None:
        return True
    if isinstance(before, Group):
        return before.opener == "{" and before.kind != "init"
    if before.kind in ("string", "number"):
        return False
    if before.kind == "name":
        return before.text in ("return", "co_return", "co_await", "co_yield", "case", "else", "in")
    return before.text != ">"


def _statement_start(items: list) -> int:
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        if isinstance(item, Token) and item.text == ";":
            return i + 1
        if isinstance(item, Group) and item.opener == "{" and item.kind != "init":
            return i + 1
    return 0


def _classify(parent: Group) -> tuple[str, bool]:
    """Says what a `{` after parent's items opens: (kind, whether it is a lambda with captures)."""
    captures = _lambda_before(parent.items)
    if captures is not None:
        return "lambda", captures
    if parent.opener in ("(", "[") and not parent.items:
        # ({ ... }): f({a, b}) looks the same; lint_coawait.py tells them apart by their content.
        return "init", False
    statement = parent.items[_statement_start(parent.items) :]
    if parent.opener in ("(", "[") or parent.kind == "init":
        return "init", False
    if not statement:
        return "block", False
    last, words = statement[-1], [_text(i) for i in statement]
    if words[-1] in ("else", "do", "try", ":"):
        return "block", False
    if words[0] in ("namespace", "extern") or words[:2] == ["inline", "namespace"]:
        return "namespace", False
    if words[-1] in ("=", ",", "return", "co_return", "co_yield", "?", "co_await"):
        return "init", False
    if _is_type_head(words):
        return "type", False
    if words[-1] == "()":
        is_control = words[-2:-1] and (
            words[-2] in _CONTROL or words[-3:-1] == ["if", "constexpr"]
        )
        return ("block" if is_control else "function"), False
    if words[-1] in _BEFORE_BODY or _has_trailing_return(words):
        return "function", False
    if isinstance(last, Group) and last.opener == "{":
        return "function", False  # a constructor: ..., member_{x} {
    return "init", False


def _is_type_head(words: list[str]) -> bool:
    depth = 0
    for word in words:
        if word in ("<",):
            depth += 1
        elif word == ">":
            depth = max(0, depth - 1)
        elif depth == 0 and word in _TYPE_WORDS:
            rest = words[words.index(word) :]
            return "()" not in rest or rest[1] == "alignas" or "=" not in rest and rest[0] == "enum"
        elif depth == 0 and word in ("=", "()"):
            return False
    return False


def _has_trailing_return(words: list[str]) -> bool:
    if "->" not in words:
        return False
    at = len(words) - 1 - words[::-1].index("->")
    if "=" in words[at:] or "," in words[at:] and "<" not in words[at:]:
        return False
    before = words[at - 1] if at > 0 else ""
    return before == "()" or before in _BEFORE_BODY


def _lambda_before(items: list) -> bool | None:
    """If items end with a lambda's head: whether it captures something. Else None."""
    i = len(items) - 1
    limit = max(0, i - 40)
    while i >= limit:
        item = items[i]
        if isinstance(item, Group) and item.opener == "[":
            if is_lambda_introducer(items, i):
                return bool(item.items)
            return None
        if isinstance(item, Group) and item.opener == "(":
            before = items[i - 1] if i > 0 else None
            if isinstance(before, Group) and before.opener == "[":
                i -= 1
                continue
            if isinstance(before, Token) and before.text in (">", "noexcept", "decltype"):
                i -= 1
                continue
            return None
        if isinstance(item, Group):
            return None
        if item.text in (";", "=", "return", "co_return", "co_await", "?"):
            return None
        i -= 1
    return None


def tree(source: str) -> Group:
    root = Group("", 1, kind="namespace")
    stack = [root]
    for token in tokens(source):
        if token.kind == "symbol" and token.text in _CLOSER:
            group = Group(token.text, token.line)
            if token.text == "{":
                group.kind, group.captures = _classify(stack[-1])
            stack[-1].items.append(group)
            stack.append(group)
        elif token.kind == "symbol" and token.text in ")]}":
            # Code that #if cut in two may not balance: close up to the matching bracket.
            depth = next(
                (d for d in range(len(stack) - 1, 0, -1) if _CLOSER[stack[d].opener] == token.text),
                0,
            )
            if depth:
                for group in stack[depth:]:
                    group.end_line = token.line
                del stack[depth:]
        else:
            stack[-1].items.append(token)
    return root


@dataclass
class Function:
    name: str
    line: int  # first line of its head
    end_line: int

    @property
    def lines(self) -> int:
        return self.end_line - self.line + 1


def functions(root: Group) -> list[Function]:
    out: list[Function] = []
    _collect_functions(root, out)
    return out


def _collect_functions(group: Group, out: list[Function]) -> None:
    start = 0
    for i, item in enumerate(group.items):
        if isinstance(item, Token):
            if item.text == ";":
                start = i + 1
            continue
        if item.opener != "{" or item.kind == "init":
            continue
        head = group.items[start:i]
        if item.kind == "function":
            first = head[0].line if head else item.line
            out.append(Function(_function_name(head), first, item.end_line))
        elif item.kind in ("namespace", "type", "block"):
            _collect_functions(item, out)
        start = i + 1


def _function_name(head: list) -> str:
    for i, item in enumerate(head):
        if isinstance(item, Group) and item.opener == "(" and i > 0:
            name = _text(head[i - 1])
            if name in ("TEST", "TEST_F", "TEST_P"):
                return name + "(" + " ".join(_text(t) for t in item.items) + ")"
            return name
    return "?"


def repository_root() -> Path:
    return Path(__file__).resolve().parent.parent


def source_files(root: Path, folders: tuple[str, ...]) -> list[Path]:
    found = [
        path
        for folder in folders
        if (root / folder).is_dir()
        for path in (root / folder).rglob("*")
        if path.suffix in SOURCE_SUFFIXES and path.is_file()
    ]
    return sorted(found)
