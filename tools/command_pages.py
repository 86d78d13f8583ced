"""Manual pages and completions of the program, from its own --help.

    tools/command_pages.py PROGRAM FOLDER

Writes below FOLDER, as below /usr: share/man/man1/dedloc.1.gz and one page a command, and
completions for bash, zsh and fish. What --help says stands nowhere else.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

LINE = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")
EXIT_CODE = re.compile(r"^ +(\d+)\s+(\S+)\s+(\S.*)$")
NO_COMMANDS = ("Options:", "Positionals:", "Examples:", "Exit codes:")


@dataclass
class Entry:
    words: str  # as --help shows it: "-h,--help", "--dir TEXT", "host"
    text: str = ""

    @property
    def options(self) -> list[str]:
        return [word for word in re.split(r"[,\s]", self.words) if word.startswith("-")]

    @property
    def takes_value(self) -> bool:
        return " " in self.words.strip()


@dataclass
class Command:
    words: list[str]  # after the program's name
    about: str = ""
    usage: str = ""
    sections: dict[str, list[Entry]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "-".join(["dedloc", *self.words])

    @property
    def options(self) -> list[Entry]:
        return self.sections.get("Options:", [])

    @property
    def commands(self) -> list[Entry]:
        return [entry for title, entries in self.sections.items()
                if title not in NO_COMMANDS
                for entry in entries]


def parse(words: list[str], text: str) -> Command:
    lines = text.splitlines()
    command = Command(words, lines[0].strip() if lines else "")
    title = ""
    for line in lines[1:]:
        if line.startswith("Usage: "):
            command.usage = line.removeprefix("Usage: ")
        elif re.match(r"^\S.*:$", line):
            title = line
        elif title == "Examples:" and line.startswith("  "):
            command.examples.append(line.strip())
        elif title == "Exit codes:":
            if match := EXIT_CODE.match(line):
                command.sections.setdefault(title, []).append(
                    Entry(f"{match[1]} {match[2]}", match[3]))
        elif not title or title == "Examples:" or not line.startswith("  "):
            continue
        elif line.startswith("      "):  # goes on, or begins below words that are too long
            entries = command.sections.get(title, [])
            if entries:
                entries[-1].text = f"{entries[-1].text} {line.strip()}".strip()
        elif match := LINE.match(line):
            command.sections.setdefault(title, []).append(Entry(match[1], match[2] or ""))
    return command


def help_of(program: str, words: list[str]) -> Command:
    done = subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=60)
    return parse(words, done.stdout)


def all_commands(program: str) -> list[Command]:
    top = help_of(program, [])
    found = [top]
    for entry in top.commands:
        command = help_of(program, [entry.words])
        found.append(command)
        found += [help_of(program, [entry.words, below.words]) for below in command.commands]
    return found


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def manual_page(command: Command, version: str) -> str:
    parts = [f'.TH {command.name.upper()} 1 "" "dedloc {version}" "dedloc"',
             ".SH NAME", f"{roff(command.name)} \\- {roff(command.about.rstrip('.'))}",
             ".SH SYNOPSIS", f".B {roff(command.usage)}"]
    for title, entries in command.sections.items():
        parts.append(f".SH {roff(title.rstrip(':').upper())}")
        for entry in entries:
            parts += [".TP", f".B {roff(entry.words)}", roff(entry.text) or "\\&"]
    if command.examples:
        parts += [".SH EXAMPLES", ".nf", *map(roff, command.examples), ".fi"]
    see = "every command has a page: dedloc\\-host(1), dedloc\\-join(1), …" if not command.words \
        else "dedloc(1)"
    return "\n".join([*parts, ".SH SEE ALSO", see, ""])


def quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


def bash(commands: list[Command]) -> str:
    cases = [f"    {quoted(' '.join(command.words))}) words={quoted(words_after(command))} ;;"
             for command in commands]
    return f"""# dedloc in bash
_dedloc() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command='' word words=''
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -* ]] && continue
        case "$command${{command:+ }}$word" in
{chr(10).join(f'        {quoted(" ".join(c.words))}) command={quoted(" ".join(c.words))} ;;'
              for c in commands if c.words)}
        esac
    done
    case $command in
{chr(10).join(cases)}
    esac
    [[ $current == -* || $command == '' ]] || words=${{words//--[a-z-]*/}}
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [[ $current == -* ]] && return
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
}}
complete -o filenames -F _dedloc dedloc
"""


def words_after(command: Command) -> str:
    return " ".join([*(entry.words for entry in command.commands),
                     *(option for entry in command.options for option in entry.options)])


def zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh(commands: list[Command]) -> str:
    top = commands[0]
    listed = "\n".join(f"        {quoted(f'{e.words}:{zsh_text(e.text)}')}" for e in top.commands)
    cases = []
    for command in commands:
        if len(command.words) != 1:
            continue
        specs = [quoted(f"{option}[{zsh_text(entry.text)}]" + (":value:_files" if entry.takes_value
                                                             else ""))
                 for entry in command.options for option in entry.options]
        below = [entry.words for entry in command.commands]
        first = quoted(f"1:command:({' '.join(below)})") if below else "'*:file:_files'"
        cases.append(f"        {command.words[0]}) _arguments {' '.join([*specs, first])} ;;")
    return f"""#compdef dedloc
_dedloc() {{
    local -a commands
    commands=(
{listed}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
{chr(10).join(cases)}
    esac
}}
_dedloc "$@"
"""


def fish(commands: list[Command]) -> str:
    lines = ["# dedloc in fish"]
    for command in commands:
        if len(command.words) > 1:
            continue
        where = (f"-n '__fish_seen_subcommand_from {command.words[0]}'" if command.words
                 else "-n __fish_use_subcommand")
        lines += [f"complete -c dedloc {where} -a {entry.words} -d {quoted(entry.text)}"
                  for entry in command.commands]
        for entry in command.options:
            names = " ".join(f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}"
                             for o in entry.options)
            value = " -r" if entry.takes_value else ""
            lines.append(f"complete -c dedloc {where} {names}{value} -d {quoted(entry.text)}")
    return "\n".join(lines) + "\n"


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    program, share = arguments[0], Path(arguments[1]) / "share"
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True,
                             check=True, timeout=60).stdout.split()[1]
    commands = all_commands(program)
    for command in commands:
        page = manual_page(command, version).encode()
        # No time in it: two builds, the same bytes.
        write(share / f"man/man1/{command.name}.1.gz", gzip.compress(page, 9, mtime=0))
    write(share / "bash-completion/completions/dedloc", bash(commands).encode())
    write(share / "zsh/vendor-completions/_dedloc", zsh(commands).encode())
    write(share / "fish/vendor_completions.d/dedloc.fish", fish(commands).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
