"""Draws what a command shows in a terminal as an SVG, for the documents.

    tools/terminal_picture.py --seconds 60 --out docs/pictures/demo.svg -- ./demo.sh

The command runs in a terminal of its own of 100 columns; it is stopped (SIGTERM) after so many
seconds, or when it ends. With --until TEXT the picture is taken when the screen shows that text.
Needs Debian's python3-pyte.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import struct
import sys
import time
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

import pyte

COLUMNS = 100
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14
COLOURS = {"default": "#d8dee9", "black": "#4c566a", "red": "#e06c75", "green": "#98c379",
           "brown": "#e5c07b", "yellow": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd",
           "cyan": "#56b6c2", "white": "#eceff4"}


def watch(command: list[str], rows: int, seconds: float, until: str) -> pyte.Screen:
    """The screen as the command left it, or as it was when time was up."""
    screen = pyte.Screen(COLUMNS, rows)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            stream.feed(os.read(terminal, 65536))
            if until and any(until in line for line in screen.display):
                break
    except OSError:  # it has ended
        return screen
    os.kill(child, signal.SIGTERM)
    return screen


def colour_of(char: pyte.screens.Char) -> str:
    if char.fg in COLOURS:
        return COLOURS[char.fg]
    return f"#{char.fg}" if len(char.fg) == 6 else COLOURS["default"]


def spans(row: dict[int, pyte.screens.Char]) -> list[tuple[int, str, str, bool]]:
    """Neighbours of one look together: (column, text, colour, bold)."""
    found: list[tuple[int, str, str, bool]] = []
    for column in range(COLUMNS):
        char = row[column]
        look = (colour_of(char), char.bold)
        if found and found[-1][2:] == look and found[-1][0] + len(found[-1][1]) == column:
            found[-1] = (found[-1][0], found[-1][1] + char.data, *look)
        else:
            found.append((column, char.data, *look))
    return [span for span in found if span[1].strip()]


def drawn(screen: pyte.Screen) -> str:
    rows = [row for row in range(screen.lines) if screen.display[row].strip()]
    last = max(rows, default=0) + 1
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, last * CELL_HEIGHT + 2 * MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
             f'viewBox="0 0 {width:.0f} {height:.0f}">',
             f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1e222a"/>',
             '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" '
             'xml:space="preserve">']
    for row in range(last):
        y = MARGIN + (row + 0.75) * CELL_HEIGHT
        for column, text, colour, bold in spans(screen.buffer[row]):
            weight = ' font-weight="bold"' if bold else ""
            parts.append(
                f'<text x="{MARGIN + column * CELL_WIDTH:.1f}" y="{y:.1f}" fill="{colour}" '
                f'textLength="{len(text) * CELL_WIDTH:.1f}"{weight}>{escape(text)}</text>')
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--until", default="")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    screen = watch(options.command, options.rows, options.seconds, options.until)
    options.out.write_text(drawn(screen), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
