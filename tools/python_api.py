"""docs/python-api.md from the docstrings of python/dedloc: what `import dedloc` offers, with the
signatures. Nothing is imported, so that no PyTorch is needed.

    tools/python_api.py            prints the page
    tools/python_api.py --write    writes docs/python-api.md
    tools/python_api.py --check    exit status 1 if the page is not what the docstrings say, or a
                                   public name has none
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import repository_root  # noqa: E402

HEAD = """# Python API

This page is written by `python3 tools/python_api.py --write` from the docstrings; a test compares
them. How to begin: [python.md](python.md).
"""
# Module, and what of it is public, in the order of the page.
PUBLIC = (("run.py", ("host", "join", "close_all", "Run")), ("_web.py", ("Page",)),
          ("optimizer.py", ("Optimizer",)),
          ("_calls.py", ("sample_seed",)), ("checkpoint.py", None), ("export.py", None),
          ("experts.py", None), ("errors.py", None), ("callbacks.py", None))
SUBMODULES = ("callbacks.py", "experts.py")  # whose names are not dedloc's own
SHOWN_INIT = ("Optimizer", "RemoteMixture")
INTERNAL = {"LightningCallback", "TrainerCallback", "error_of", "measures_of"}
Definition = (ast.FunctionDef, ast.ClassDef)


class NoDocstring(Exception):
    pass


def arguments_of(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef):
        made = [item for item in node.body
                if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        return arguments_of(made[0]) if made else set()
    return {argument.arg for argument in node.args.args + node.args.kwonlyargs}


def text_of(node: ast.AST, name: str) -> str:
    text = ast.get_docstring(node)
    if not text:
        raise NoDocstring(name)
    text = re.sub(r":(?:func|class|meth):`([^`]+)`", r"``\1``", inspect.cleandoc(text))
    for argument in arguments_of(node):  # a list of them
        text = re.sub(rf"^{argument}: ", f"- `{argument}`: ", text, flags=re.MULTILINE)
    return text.replace("``", "`").rstrip()


def signature(node: ast.FunctionDef, is_method: bool) -> str:
    arguments = node.args
    if is_method:
        arguments.args = arguments.args[1:]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){result}"


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def of_class(node: ast.ClassDef, prefix: str = "") -> list[str]:
    bases = [ast.unparse(base) for base in node.bases]
    parts = [f"## `{prefix}{node.name}" + (f"({', '.join(bases)})`" if bases else "`"),
             text_of(node, node.name)]
    for item in node.body:
        if not isinstance(item, ast.FunctionDef):
            continue
        if item.name == "__init__" and node.name in SHOWN_INIT:
            parts.insert(1, f"`{node.name}{signature(item, True)}`")
        if item.name.startswith("_"):
            continue
        head = (f"### `{node.name}.{item.name}`" if is_property(item) else
                f"### `{node.name}.{item.name}{signature(item, True)}`")
        parts += [head, text_of(item, f"{node.name}.{item.name}")]
    return parts


def page(root: Path) -> str:
    parts = [HEAD.rstrip("\n")]
    for file, names in PUBLIC:
        tree = ast.parse((root / "python/dedloc" / file).read_text(encoding="utf-8"))
        found = {node.name: node for node in tree.body if isinstance(node, Definition)
                 and not node.name.startswith("_") and node.name not in INTERNAL}
        prefix = f"{file[:-3]}." if file in SUBMODULES else ""
        for name in names or found:
            node = found[name]
            if isinstance(node, ast.ClassDef):
                parts += of_class(node, prefix)
            else:
                parts += [f"## `{prefix}{name}{signature(node, False)}`", text_of(node, name)]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    root = repository_root()
    path = root / "docs" / "python-api.md"
    try:
        text = page(root)
    except NoDocstring as name:
        print(f"{name} has no docstring")
        return 1
    if arguments == ["--write"]:
        path.write_text(text, encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print("docs/python-api.md is behind the docstrings; run: "
                  "python3 tools/python_api.py --write")
            return 1
        return 0
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
