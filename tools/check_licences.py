"""Libraries that people get linked with dedloc, and their licences; no GPL among them.

    tools/check_licences.py [BUILD_FOLDER]            checks, and compares with docs/licences.md
    tools/check_licences.py --write [BUILD_FOLDER]    writes docs/licences.md

Looks at the programs and the shared libraries that people get: the libraries that they name (in the
dynamic section; static archives in build.ninja), those that these name in turn, the Debian package
of each, and what /usr/share/doc/PACKAGE/copyright says. libtorch comes from Debian with hundreds of
libraries of its own (video codecs, maps); they are counted apart, because another libtorch brings
others, and dedloc calls none of them.

A licence passes if one of its alternatives does. GPL with an exception for linking passes;
copyright files that no program can read are judged in tools/licences.toml, with the reason.

Exit status: 0 clean, 1 not, 77 there is nothing to look at (no build, or no Debian).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/licences.md"
SKIP = 77
TORCH = re.compile(r"^lib(torch|c10|caffe2)")
# Files of a source package that no library contains: packaging, build scripts, tests, pages.
_NOT_LINKED = re.compile(
    r"(^|/)(debian|m4|test|tests|testing|doc|docs|documentation|man|manpages?|examples?|demos?|"
    r"contrib|tools?|scripts?|cmake|build-aux|perf|fuzz|benchmarks?|admin|win32|windows|projects|"
    r"python|perl|java|bindings|ports?|unix)(/|$)"
    r"|(^|/)(configure|Makefile|aclocal|config\.|ltmain|depcomp|install-sh|missing|compile|ylwrap|"
    r"texinfo|mkinstalldirs|ar-lib|test-driver|INSTALL|autogen|gnulib)"
    r"|\.(m4|sh|py|pl|cmake|in|am|ac|html|md|txt|texi|1|3|rb|spec|yml|bat|mk|make)$|libtool")


@dataclass
class Library:
    name: str
    package: str


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def needed(binary: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", run("readelf", "-d", str(binary)))


def paths_of(binary: Path) -> dict[str, Path]:
    found = re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", str(binary)), re.MULTILINE)
    return {name: Path(path) for name, path in found}


def names_of(path: Path) -> list[str]:
    """Debian's dpkg knows a file by one of its two names: /lib is a link to /usr/lib."""
    real = os.path.realpath(path)
    return [str(path), real, real.removeprefix("/usr"), "/usr" + real]


def packages_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The Debian package of each file, '' for none: all in one question, as each reads dpkg's whole
    list of files."""
    names = {path: names_of(path) for path in paths}
    if not names:
        return {}
    owners: dict[str, str] = {}
    asked = sorted({name for of_one in names.values() for name in of_one})
    for line in run("dpkg-query", "-S", *asked).splitlines():
        owner, _, name = line.rpartition(": ")
        owners.setdefault(name, owner.split(":")[0])
    return {path: next((owners[name] for name in of_one if owners.get(name)), "")
            for path, of_one in names.items()}


def package_of(path: Path) -> str:
    return packages_of([path])[path]


def archives(build: Path, target: str) -> set[Path]:
    """Static archives of the system that a target was linked with."""
    text = (build / "build.ninja").read_text(encoding="utf-8", errors="replace")
    block = re.search(rf"^build {re.escape(target)}: .*?\n\n", text, re.MULTILINE | re.DOTALL)
    words = block[0].split() if block else []
    return {Path(word) for word in words if word.startswith("/usr/") and word.endswith(".a")}


def paragraphs(text: str) -> list[dict[str, str]]:
    """The fields of a machine-readable copyright file (DEP 5), paragraph by paragraph."""
    result = []
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        for match in re.finditer(r"^([A-Za-z-]+):(.*(?:\n[ \t].*)*)", block, re.MULTILINE):
            fields[match[1].lower()] = match[2].strip()
        result.append(fields)
    return result


def licences_of(text: str) -> list[str] | None:
    """Licences of all that a library may contain; None where no program can tell."""
    if not re.match(r"\s*(Format|Format-Specification):", text):
        return None
    found: dict[str, None] = {}
    for fields in paragraphs(text):
        if "files" not in fields or "license" not in fields:
            continue
        patterns = [word.rstrip(",") for word in fields["files"].split()]
        if all(_NOT_LINKED.search(pattern) for pattern in patterns):
            continue
        found[fields["license"].splitlines()[0].strip()] = None
    return list(found) or None


def passes(expression: str) -> bool:
    """`LGPL-3+ or GPL-2+` does, `GPL-2+ with libtool exception` does, `GPL-2+` does not."""
    def term_passes(term: str) -> bool:
        return not re.match(r"\s*\(?\s*A?GPL", term, re.IGNORECASE) or "exception" in term.lower()
    alternatives = re.split(r"\s+or\s+|\s*\|\s*", expression, flags=re.IGNORECASE)
    return any(all(map(term_passes, re.split(r"\s+and\s+|,\s*", one, flags=re.IGNORECASE)))
               for one in alternatives)


def judge(package: str, reviewed: dict[str, dict[str, str]],
          doc: Path = Path("/usr/share/doc")) -> tuple[str, str]:
    """The licence in words, and what is wrong with it ('' if nothing)."""
    if not package:
        return "not Debian's: PyPI's libtorch, say", ""
    if package in reviewed:
        return f"{reviewed[package]['licence']} ({reviewed[package]['why']})", ""
    try:
        text = (doc / package / "copyright").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown", "has no copyright file"
    licences = licences_of(text)
    if licences is None:
        if re.search(r"\bGPL|General Public Licen", text):
            return "unknown", ("has a copyright file for people, which speaks of the GPL: judge it "
                               "in tools/licences.toml")
        return "see its copyright file (permissive)", ""
    bad = [licence for licence in licences if not passes(licence)]
    return ", ".join(licences), f"is under {', '.join(bad)}" if bad else ""


def installed(build: Path) -> list[Path]:
    """The program, its helpers and the library that people get, not the developers' programs."""
    programs = [build / "bin/dedloc", *(build / "bin").glob("dedloc-*")]
    found = [path for path in programs if path.name != "dedloc-lab"]
    found += build.glob("**/libdedloc*.so")
    return [path for path in found if path.is_file()]


def collect(build: Path) -> tuple[dict[str, Library], set[str]]:
    """Libraries by name, and packages that only libtorch brings along."""
    found: dict[str, Path] = {}
    brought: set[Path] = set()
    for binary in installed(build):
        paths = paths_of(binary)
        waiting = needed(binary)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in paths or paths[name].is_relative_to(build):
                continue
            seen.add(name)
            found.setdefault(name, paths[name])
            if not TORCH.match(name):
                waiting += needed(paths[name])
        brought |= {path for name, path in paths.items()
                    if name not in seen and not path.is_relative_to(build)}
        for archive in archives(build, str(binary.relative_to(build))):
            found.setdefault(archive.name, archive)
    packages = packages_of({*found.values(), *brought})
    libraries = {name: Library(name, packages[path]) for name, path in found.items()}
    own = {library.package for library in libraries.values()}
    return libraries, {packages[path] for path in brought} - own


def page(libraries: dict[str, Library], judged: dict[str, tuple[str, str]],
         brought: dict[str, tuple[str, str]]) -> str:
    by_package: dict[str, list[Library]] = {}
    for library in libraries.values():
        by_package.setdefault(library.package, []).append(library)
    rows = [f"| `{package}` | {', '.join(sorted(f'`{one.name}`' for one in found))} | "
            f"{judged[package][0]} |" for package, found in sorted(by_package.items())]
    copyleft = sorted(package for package, (_, wrong) in brought.items() if "is under" in wrong)
    return f"""# Licences

dedloc is under the [MIT licence](../LICENSE). The table lists the libraries of Debian 12 that its
programs and `libdedloc.so` are linked with, and their licences as far as they concern what is
linked. `python3 tools/check_licences.py --write` makes this page; a test compares it and fails on
the GPL.

| package | libraries | licences |
|---|---|---|
{chr(10).join(rows)}

## Brought along by libtorch

Debian's libtorch loads {len(brought)} further packages, for pictures, films and maps that dedloc
never touches. Some are under the GPL as Debian builds them:
{", ".join(f"`{package}`" for package in copyleft) or "none"}.
Those who give away dedloc and Debian's libtorch together, as one work, heed their terms. PyPI's
libtorch has none of them, and what trains nothing needs no libtorch (`-DDEDLOC_TORCH=OFF`).
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=str(ROOT / "build/release"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    if not installed(build) or not Path("/usr/bin/dpkg-query").exists():
        print(f"there is nothing to look at: {build} has no programs, or this is no Debian")
        return SKIP
    with (ROOT / "tools/licences.toml").open("rb") as file:
        reviewed = tomllib.load(file)["reviewed"]
    libraries, brought_packages = collect(build)
    judged = {package: judge(package, reviewed)
              for package in {library.package for library in libraries.values()}}
    brought = {package: judge(package, reviewed) for package in brought_packages}
    failures = [f"{library.name} ({library.package or 'no package'}): {judged[library.package][1]}"
                for library in sorted(libraries.values(), key=lambda one: one.name)
                if judged[library.package][1]]
    for failure in failures:
        print(failure)
    text = page(libraries, judged, brought)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        listed = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        missing = sorted(package for package in judged
                         if package and f"| `{package}` |" not in listed)
        failures += missing
        for package in missing:
            print(f"docs/licences.md lacks {package}: run tools/check_licences.py --write")
    print(f"{len(libraries)} libraries of {len(judged)} packages, {len(failures)} in the way")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
