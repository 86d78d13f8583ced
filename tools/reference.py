"""docs/reference.md: keys of the run file, events and metrics from the code, commands from --help.

    tools/reference.py PROGRAM            writes the page (PROGRAM: build/release/bin/dedloc)
    tools/reference.py PROGRAM --check    says whether the page is stale; 77 without the program

A key's line is the visit() that reads it, its default the member's, its meaning the comment that
`dedloc init` writes, or else the member's own. An event's line is its struct in events/events.h,
a metric's the HELP text in web/metrics.cpp.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from command_pages import Command, all_commands  # noqa: E402
from cpp_source import repository_root, source_files  # noqa: E402

PAGE = "docs/reference.md"
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
MEMBER = re.compile(r"^    [\w:<>, ]+ (\w+)(?: = ([^;]+)|\{([^;}]*)\})?;(?:\s*// (.*))?$")
NUMBERS = {"steps_max": "2^40", "samples_per_step_max": "2^32", "codec_threshold_min": "4096",
           "size_max": "2^20", "fragments_max": "64", "1u << 20": "2^20", "1u << 30": "2^30"}


@dataclass
class Key:
    name: str
    rule: str
    default: str = ""
    meaning: str = ""


def arguments_at(text: str, at: int) -> list[str]:
    """Arguments of the call that opens at `at`, split at commas outside brackets and strings."""
    depth, begin, found, i = 0, at + 1, [], at
    while i < len(text):
        if text[i] == '"':
            i = STRING.match(text, i).end() if STRING.match(text, i) else i + 1
            continue
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and text[i] == ","):
            found.append(text[begin:i].strip())
            begin = i + 1
        if depth == 0:
            break
        i += 1
    return [argument for argument in found if argument]


def said(text: str) -> str:
    """Adjacent string literals as one text."""
    parts = STRING.findall(text)
    return re.sub(r"\\(.)", r"\1", "".join(parts))


def bounds(rule: str) -> str:
    inner = re.search(r"\{(.*)\}", rule, re.DOTALL)
    values = [re.sub(r"^\.\w+ = ", "", v.strip())
              for v in (inner[1].split(",") if inner else []) if v.strip()]
    values = [NUMBERS.get(v, v).replace("'", "") for v in values]
    if len(values) == 2:
        return f", {values[0]} to {values[1]}"
    return f", at least {values[0]}" if values else ""


def values_of(rule: str) -> str:
    kind = re.sub(r"^run::", "", rule).split("{")[0].strip()
    if kind == "Choice":
        return " ".join(f'"{word}"' for word in STRING.findall(rule))
    if kind == "Enumeration":
        return "a word"
    if kind == "Text":
        return "text"
    if kind == "Durations":
        return "a duration" + bounds(rule)
    if kind in ("Integers", "IntegersOrAuto"):
        return "an integer" + bounds(rule) + (' or "auto"' if kind.endswith("Auto") else "")
    if kind in ("Numbers", "NumbersOrAuto"):
        return "a number" + bounds(rule) + (' or "auto"' if kind.endswith("Auto") else "")
    return "true or false" if kind in ("", "std::monostate", "std::monostate()") else "a value"


def members_of(source: str, struct: str) -> dict[str, tuple[str, str]]:
    """name: (default, comment) of a struct's members, its nested types apart."""
    begin = re.search(rf"\bstruct {struct}\b[^;{{]*\{{", source)
    if not begin:
        return {}
    end = source.find("\n};", begin.end())
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in source[begin.end():end].split("\n"):
        comment = re.match(r"^    // (.*)$", line)
        if comment:
            above.append(comment[1])
            continue
        member = MEMBER.match(line)
        if member:
            found[member[1]] = (member[2] or member[3] or "", member[4] or " ".join(above))
        above = []
    return found


def default_text(default: str) -> str:
    text = default.strip()
    if seconds := re.match(r"std::chrono::(\w+)\((\d+)\)$", text):
        return f'"{seconds[2]}{dict(seconds="s", minutes="min", hours="h")[seconds[1]]}"'
    if text in ("micro_auto", "tau_auto"):
        return '"auto"'
    if text == "undecided_hash":
        return '"none"'
    if text == "codec::gather_max_usual":
        return "16"
    if shift := re.match(r"1u << (\d+)$", text):
        return str(1 << int(shift[1]))
    if "::" in text:
        return f'"{text.split("::")[-1]}"'
    return text.replace("'", "")


def with_constants(default: str, everything: str) -> str:
    """A default that is a named string: its text."""
    if re.fullmatch(r"[a-z_]\w*", default) and default not in ("true", "false"):
        named = re.search(rf'\b{default} = "([^"]*)"', everything)
        if named:
            return f'"{named[1]}"'
    return default


def comments_of_templates(source: str) -> dict[str, str]:
    block = source[source.index("common_comments[] = {"):source.index("local_intro")]
    found = {}
    for match in re.finditer(r'^    \{"([\w.]+)",', block, re.MULTILINE):
        parts = arguments_at(block, match.start() + 4)
        found[match[1]] = said(parts[1])
    return found


def visits(body: str) -> Iterator[tuple[str, list[str]]]:
    """The calls of visit(…) and of visit_NAME(…) in order: the function's name, its arguments."""
    for match in re.finditer(r"\b(visit\w*)\(", body):
        yield match[1], arguments_at(body, match.end() - 1)


def core_keys(root: Path) -> list[Key]:
    run = root / "src/dedloc/run"
    optim = root / "src/dedloc/optim"
    header = (run / "run_file.h").read_text(encoding="utf-8")
    members = {section: members_of(header, f"{section.capitalize()}Config")
               for section in ("batch", "local", "averaging", "robust", "access", "stop", "task")}
    members["optimizer"] = members_of((optim / "optimizer.h").read_text(encoding="utf-8"),
                                      "OptimizerConfig")
    members["schedule"] = members_of((optim / "schedule.h").read_text(encoding="utf-8"), "Schedule")
    of_run = members_of(header, "RunFile")
    words = comments_of_templates(
        (root / "src/dedloc/templates/run_templates.cpp").read_text(encoding="utf-8"))
    body = (run / "run_file.cpp").read_text(encoding="utf-8")
    begin = body.index("void visit_fields(")
    sources = [body[begin:body.index("\n}\n", begin)]]
    sources += [(run / f"sections/{name}.h").read_text(encoding="utf-8")
                for name in ("optimizer", "local", "averaging", "robust", "access")]
    keys = []
    for source in sources:
        for function, call in visits(source):
            if function != "visit" or len(call) < 2 or not STRING.search(call[0]):
                continue
            name = said(call[0])
            section, _, last = name.rpartition(".")
            member = call[1].split(".")[-1].strip("* ")
            default, comment = members.get(section, {}).get(last, of_run.get(member, ("", "")))
            keys.append(Key(name, values_of(call[2] if len(call) > 2 else ""),
                            default_text(default), words.get(name, comment)))
    return keys


def task_sections(root: Path) -> list[tuple[str, str, list[Key]]]:
    """(section, kinds of tasks, keys) in the order of names."""
    sources = {path: path.read_text(encoding="utf-8")
               for path in source_files(root, ("src/dedloc/tasks",))
               if not path.stem.endswith("_test")}
    everything = "\n".join(sources.values())
    constants = dict(re.findall(r'(\w+_section_name)(?:\[\])? = "(\w+)"', everything))
    uses: dict[tuple[str, str], list[str]] = {}
    for path, source in sources.items():
        if not path.stem.endswith("_kind"):
            continue
        kind = path.stem.removesuffix("_kind")
        for struct, constant in re.findall(r"section_schema<(\w+)>\((\w+)\)", source):
            uses.setdefault((constants.get(constant, constant), struct), []).append(kind)
    found = []
    for (section, struct), kinds in sorted(uses.items()):
        keys = keys_of_struct(everything, struct)
        if keys:
            found.append((section, ", ".join(kinds), keys))
    return found


def keys_of_struct(everything: str, struct: str) -> list[Key]:
    begin = re.search(rf"\bstruct {struct}\b[^;{{]*\{{", everything)
    if not begin:
        return []
    end = everything.find("\n};", begin.end())
    at = everything.find("static void fields(", begin.end(), end)
    if at < 0:
        return []
    body = everything[at:everything.index("\n    }", at)]
    return keys_in(body, members_of(everything, struct), everything)


def keys_in(body: str, members: dict[str, tuple[str, str]], everything: str) -> list[Key]:
    keys: list[Key] = []
    for function, call in visits(body):
        if function == "visit" and len(call) > 1 and STRING.match(call[0]):
            keys.append(key_of_call(call, body, members, everything))
        elif function != "visit" and call[:1] == ["visit"]:  # a list that several structs share
            shared = re.search(rf"\bvoid {function}\([^)]*\) \{{\n(.*?)\n\}}", everything,
                               re.DOTALL)
            if shared:
                keys += keys_in(shared[1], members, everything)
    return keys


def key_of_call(call: list[str], body: str, members: dict[str, tuple[str, str]],
                everything: str) -> Key:
    is_text = r'(?:std::string_view\(\s*)?"'
    rule = call[2] if len(call) > 2 and not re.match(is_text, call[2]) else ""
    if re.fullmatch(r"\w+", rule):  # a rule with a name of its own
        named = re.search(rf"\b((?:run::)?[A-Z]\w+) {rule}(\{{[^}}]*\}})", body)
        rule = named[1] + named[2] if named else rule
    text = said(call[-1]) if len(call) > 2 and re.match(is_text, call[-1]) else ""
    default, comment = members.get(call[1].split(".")[-1], ("", ""))
    return Key(said(call[0]), values_of(rule), with_constants(default_text(default), everything),
               text or comment)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def key_table(keys: list[Key]) -> list[str]:
    lines = ["| key | value | if it is not there | |", "|---|---|---|---|"]
    for key in keys:
        default = f"`{key.default}`" if key.default else ""
        lines.append(f"| `{key.name}` | {cell(key.rule)} | {cell(default)} | {cell(key.meaning)} |")
    return lines


def events(root: Path) -> list[str]:
    source = (root / "src/dedloc/events/events.h").read_text(encoding="utf-8")
    lines = ["| kind | fields |", "|---|---|"]
    for match in re.finditer(r"^struct (\w+)[^;{]*\{\n(.*?)^\};", source, re.MULTILINE | re.DOTALL):
        kind = re.search(r'kind = "(\w+)"', match[2])
        if not kind:
            continue
        names = re.search(r"DEDLOC_NAMED_FIELDS\((.*?)\)\n", match[2], re.DOTALL)
        members = members_of(source, match[1])
        fields = []
        for name in (names[1].split(",") if names else []):
            comment = members.get(name.strip(), ("", ""))[1].strip(" …")
            fields.append(f"`{name.strip()}`" + (f" ({comment})" if comment else ""))
        lines.append(f"| `{kind[1]}` | {cell(', '.join(fields))} |")
    return lines


def metrics(root: Path) -> list[str]:
    source = (root / "src/dedloc/web/metrics.cpp").read_text(encoding="utf-8")
    lines = ["| metric | kind | |", "|---|---|---|"]
    for match in re.finditer(r"\btext\.(gauge|counter|begin)\(", source):
        call = arguments_at(source, match.end() - 1)
        name = said(call[0])
        kind = said(call[1]) if match[1] == "begin" else match[1]
        if name:
            lines.append(f"| `{name}` | {kind} | {cell(said(call[-1]))} |")
    return lines


def command_lines(command: Command) -> list[str]:
    lines = [f"### `{' '.join(['dedloc', *command.words])}`", "", command.about, "",
             f"`{command.usage}`", ""]
    entries = command.sections.get("Positionals:", []) + command.options
    entries = [entry for entry in entries if "--help" not in entry.words]
    if entries:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{cell(entry.words)}` | {cell(entry.text)} |" for entry in entries] + [""]
    return lines


def page(root: Path, program: str) -> str:
    lines = ["<!-- Written by tools/reference.py; do not edit. -->", "# Reference", "",
             "Everything that has a name: [keys of the run file](#keys-of-the-run-file),",
             "[events](#events), [metrics](#metrics), [commands](#commands). Written by",
             "`tools/reference.py` from the code; what things are for: the [pages](README.md).", "",
             "## Keys of the run file", "",
             "`dedloc init TASK` writes a file with comments; `dedloc check FILE` explains it.",
             "Peers of one run have all of them in common. `[local.optimizer]` and",
             "`[local.schedule]` have the keys of `[optimizer]` and `[schedule]`.", ""]
    lines += key_table(core_keys(root)) + [""]
    for section, kinds, keys in task_sections(root):
        lines += [f"### `[{section}]` of {kinds}", "", *key_table(keys), ""]
    lines += ["## Events", "", "Of `events.jsonl`; when each comes: [events](events.md).", "",
              *events(root), "", "## Metrics", "",
              "Of `/metrics` of the [page](web.md), for Prometheus.", "", *metrics(root), "",
              "## Commands", "", "Of `dedloc --help`.", ""]
    for command in all_commands(program):
        lines += command_lines(command)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=repository_root())
    options = parser.parse_args(arguments)
    if not os.access(options.program, os.X_OK):
        print(f"{options.program} is not built")
        return 77
    text = page(options.root, str(Path(options.program).resolve()))
    path = options.root / PAGE
    if not options.check:
        path.write_text(text, encoding="utf-8")
        return 0
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    if old == text:
        print(f"{PAGE} is as the code is")
        return 0
    for number, (is_there, wanted) in enumerate(
            zip(old.split("\n") + [""], text.split("\n") + [""]), 1):
        if is_there != wanted:
            print(f"{PAGE}:{number}: '{is_there}', and the code says '{wanted}'")
            break
    print(f"run: python3 tools/reference.py {options.program}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
