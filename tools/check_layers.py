"""Checks that modules include only lower ones and only their own libraries (tools/layers.toml).

Also: names of a library (asio::) only where the library is allowed; the MODULES of each module's
CMakeLists.txt are allowed here and cover what the module includes; the allowed ones form no cycle;
nobody includes a composition root.

    tools/check_layers.py [--root FOLDER] [--table]

--table prints the modules as a Markdown table (ARCHITECTURE.md). Exit status: 0 clean, 1 not, 2 the
table itself is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_source import code_lines, repository_root, source_files  # noqa: E402

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
_MODULE_CALL = re.compile(r"dedloc_module\s*\(([^)]*)\)", re.DOTALL)
_KEYWORDS = {"MODULES", "LIBRARIES", "TEST_MODULES", "TEST_LIBRARIES", "COROUTINES", "PRECOMPILED",
             "EXCLUDE"}


class TableError(Exception):
    pass


@dataclass
class Module:
    name: str
    modules: set[str]
    test_modules: set[str]
    libraries: set[str]
    files: dict[str, set[str]] = field(default_factory=dict)
    # Only these headers of these modules.
    only: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Table:
    libraries: dict[str, list[str]]
    names: dict[str, list[str]]
    everywhere: set[str]
    tests: set[str]
    interfaces: set[str]
    moved: set[str]
    modules: dict[str, Module]
    root_folders: list[str]
    root_libraries: set[str]
    # A root's folder may include headers of these others.
    root_includes: dict[str, set[str]]

    @staticmethod
    def load(path: Path) -> "Table":
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        every = set(raw["modules"])
        modules = {}
        for name, entry in raw["modules"].items():
            is_root = entry["modules"] == "all"
            modules[name] = Module(
                name,
                every - {name} if is_root else set(entry["modules"]),
                set(entry.get("test_modules", [])),
                set(entry["libraries"]),
                {file: set(libraries) for file, libraries in entry.get("files", {}).items()},
                {other: set(headers) for other, headers in entry.get("only", {}).items()},
            )
            unknown = (modules[name].modules | modules[name].test_modules) - every
            if unknown:
                names = ", ".join(sorted(unknown))
                raise TableError(f"module {name} allows unknown modules: {names}")
        table = Table(
            raw["libraries"],
            raw["names"],
            set(raw["everywhere"]["libraries"]),
            set(raw["everywhere"]["test_libraries"]),
            set(raw.get("interfaces", {}).get("headers", [])),
            set(raw.get("moved", {}).get("headers", [])),
            modules,
            raw["roots"]["folders"],
            set(raw["roots"]["libraries"]),
            {one: set(others) for one, others in raw["roots"].get("may_include", {}).items()},
        )
        table.check_cycles()
        return table

    def check_cycles(self) -> None:
        done: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                raise TableError("modules form a cycle: " + " -> ".join((*path, name)))
            if name in done:
                return
            for other in sorted(self.modules[name].modules):
                visit(other, (*path, name))
            done.add(name)

        for name in self.modules:
            visit(name, ())

    def is_root(self, name: str) -> bool:
        return len(self.modules[name].modules) == len(self.modules) - 1

    def library_of(self, header: str) -> str | None:
        for library, prefixes in self.libraries.items():
            for prefix in prefixes:
                if header == prefix or (prefix.endswith("/") and header.startswith(prefix)):
                    return library
        return None


def is_standard(header: str) -> bool:
    return "/" not in header and "." not in header


def is_test(path: Path) -> bool:
    endings = ("_test", "_testing", "_bench", "_fuzz")
    return path.stem.endswith(endings) or path.stem.startswith("test_")


class Checker:
    def __init__(self, root: Path, table: Table) -> None:
        self.root = root
        self.table = table
        self.problems: list[str] = []
        self.included: dict[str, set[str]] = {name: set() for name in table.modules}

    def report(self, path: Path, line: int, text: str) -> None:
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def run(self) -> list[str]:
        sources = self.root / "src" / "dedloc"
        folders = [p for p in sources.iterdir() if p.is_dir()] if sources.is_dir() else []
        for folder in sorted(folders):
            files = source_files(sources, (folder.name,))
            if files and folder.name not in self.table.modules:
                self.report(files[0], 1, f"module {folder.name} is not in tools/layers.toml")
                continue
            for path in files:
                self.check_file(path, folder.name)
            if folder.name in self.table.modules:
                self.check_cmake(folder)
        for path in source_files(self.root, tuple(self.table.root_folders)):
            self.check_file(path, None)
        return self.problems

    def libraries_for(self, path: Path, module: str | None) -> set[str]:
        if module is None:
            return self.table.everywhere | self.table.root_libraries
        entry = self.table.modules[module]
        allowed = self.table.everywhere | entry.libraries | entry.files.get(path.name, set())
        return allowed | self.table.tests if is_test(path) else allowed

    def check_file(self, path: Path, module: str | None) -> None:
        if module is not None and f"{module}/{path.name}" in self.table.moved:
            return
        source = path.read_text(encoding="utf-8")
        allowed = self.libraries_for(path, module)
        for number, line in enumerate(source.split("\n"), 1):
            match = _INCLUDE.match(line)
            if match:
                self.check_include(path, number, module, match.group(1), match.group(2), allowed)
        for library, names in self.table.names.items():
            if library not in allowed:
                self.check_names(path, source, library, names)

    def check_include(self, path, number, module, quote, header, allowed) -> None:
        if quote == '"':
            if header.endswith("_testing.h") and not is_test(path):
                self.report(path, number, f'"{header}" is for tests only')
            parts = header.split("/")
            home = path.relative_to(self.root).parent.as_posix()
            if parts[0] == "dedloc" and len(parts) >= 3:
                self.check_module(path, number, module, parts[1], "/".join(parts[1:]))
            elif parts[0] in self.table.root_folders:
                folder = "/".join(parts[:-1])
                if folder != home and folder not in self.table.root_includes.get(home, ()):
                    self.report(path, number, f'"{header}": {folder} is a composition root')
            elif module is not None:
                self.report(path, number, f'"{header}": write "dedloc/{module}/{header}"')
            return
        library = self.table.library_of(header)
        if library is not None:
            if library not in allowed:
                where = f"module {module}" if module else "this folder"
                self.report(path, number, f"<{header}>: {where} may not use {library}")
        elif not is_standard(header):
            self.report(path, number, f"<{header}> belongs to no library of tools/layers.toml")

    def check_module(self, path, number, module: str | None, other: str, header: str) -> None:
        if header in self.table.moved:
            self.report(path, number, f'"dedloc/{header}" has moved: include what it includes')
        elif other not in self.table.modules:
            self.report(path, number, f"there is no module {other}")
        elif module is None and self.table.is_root(other):
            self.report(path, number, f'"dedloc/{header}": {other} is a composition root')
        elif module is not None and other != module:
            entry = self.table.modules[module]
            tests_only = other in entry.test_modules and is_test(path)
            if other not in entry.modules and not tests_only:
                self.report(path, number, f"module {module} may not include module {other}")
            elif other in entry.only and Path(header).name not in entry.only[other]:
                self.report(path, number, f"module {module} may not include {header}")
            elif not is_test(path) and header not in self.table.interfaces:
                # A folder inside a module has targets of its own; the linker checks those.
                if path.parent.name == module:
                    self.included[module].add(other)
        elif module is not None:
            self.check_neighbour(path, number, module, header)

    # Folders inside a module are independent of each other: one task knows no other.
    def check_neighbour(self, path, number, module: str, header: str) -> None:
        parts = header.split("/")
        if len(parts) > 2 and path.parent.name not in (module, parts[1]):
            self.report(path, number, f"{module}/{path.parent.name} may not include {header}")

    def check_names(self, path: Path, source: str, library: str, names: list[str]) -> None:
        if not any(name in source for name in names):
            return
        pattern = re.compile("|".join(r"(?<![\w:])" + re.escape(name) for name in names))
        for number, line in enumerate(code_lines(source), 1):
            match = pattern.search(line)
            if match and not line.lstrip().startswith("#"):
                self.report(path, number, f"{match.group()}: {library} may not be named here")

    def check_cmake(self, folder: Path) -> None:
        path = folder / "CMakeLists.txt"
        if not path.is_file():
            return
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8"))
        match = _MODULE_CALL.search(text)
        if not match:
            return  # a composition root with its own targets
        words, lists, key = match.group(1).split(), {}, ""
        for word in words[1:]:
            if word in _KEYWORDS:
                key = word
            elif word.startswith("${"):
                return  # chosen by an option; the linker will tell
            else:
                lists.setdefault(key, set()).add(word)
        entry = self.table.modules[folder.name]
        linked = lists.get("MODULES", set())
        for other in sorted(linked - entry.modules):
            self.report(path, 1, f"MODULES names {other}, which the table does not allow")
        for other in sorted(lists.get("TEST_MODULES", set()) - entry.modules - entry.test_modules):
            self.report(path, 1, f"TEST_MODULES names {other}, which the table does not allow")
        reachable = self.reachable(linked)
        for other in sorted(self.included[folder.name] - reachable):
            if other != folder.name:
                self.report(path, 1, f"the module includes {other}, but MODULES does not link it")

    def reachable(self, modules: set[str]) -> set[str]:
        out: set[str] = set()
        pending = [r for r in modules if r in self.table.modules]
        while pending:
            name = pending.pop()
            if name not in out:
                out.add(name)
                pending += self.table.modules[name].modules
        return out


def markdown(table: Table) -> str:
    rows = ["| module | may include | libraries |", "|---|---|---|"]
    for module in table.modules.values():
        modules = "every module" if table.is_root(module.name) else " ".join(
            name for name in table.modules if name in module.modules)
        special = [f"{' '.join(sorted(v))} ({k})" for k, v in module.files.items()]
        libraries = ", ".join([*sorted(module.libraries), *special])
        rows.append(f"| `{module.name}` | {modules} | {libraries} |")
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=Path, default=repository_root())
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    try:
        table = Table.load(options.root / "tools" / "layers.toml")
    except (OSError, tomllib.TOMLDecodeError, KeyError, TableError) as error:
        print(f"tools/layers.toml: {error}", file=sys.stderr)
        return 2
    if options.table:
        print(markdown(table))
        return 0
    problems = Checker(options.root.resolve(), table).run()
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(table.modules)} modules: every include is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
