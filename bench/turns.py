"""Two programs in turns of a second: one runs, the other is stopped.

One machine's speed changes by a third within seconds where others share it. In turns both programs
see the same machine, so that their ratio can be told to a hundredth.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

MARGIN = 0.02  # at both ends of a turn, s: clocks are read to milliseconds


@dataclass
class Turn:
    begin: float  # wall clock, s
    end: float


@dataclass
class Step:
    end: float  # wall clock, s
    seconds: float

    def lies_in(self, turn: Turn) -> bool:
        return turn.begin + MARGIN <= self.end - self.seconds and self.end <= turn.end - MARGIN


def hosted_steps(folder: Path) -> list[Step]:
    """The steps in a peer's event log."""
    events = [json.loads(line) for line in
              (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    return [Step(e["time"], e["fields"]["seconds"]) for e in events if e["kind"] == "step"]


def printed_steps(printed: dict) -> list[Step]:
    """The steps in what a plain loop prints at its end."""
    return [Step(*step) for step in zip(printed["ends"], printed["seconds"])]


def run_in_turns(commands: list[list[str]], outputs: list[int], environment: dict[str, str],
                 turn_seconds: float, seconds_max: float) -> list[list[Turn]]:
    """Runs the commands until one has ended, and its rivals to their end without turns. Who was
    last begins the next round, so that what drifts favours nobody. Returns when each ran. Raises
    subprocess.SubprocessError if one fails or takes too long."""
    processes: list[subprocess.Popen] = []
    turns: list[list[Turn]] = [[] for _ in commands]
    until = time.monotonic() + seconds_max
    try:
        for command, output in zip(commands, outputs):
            processes.append(subprocess.Popen(command, stdout=output, env=environment))
            processes[-1].send_signal(signal.SIGSTOP)
        order = list(zip(processes, turns))
        while all(process.poll() is None for process in processes):
            for process, own in order:
                begin = time.time()
                process.send_signal(signal.SIGCONT)
                try:
                    process.wait(turn_seconds)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGSTOP)
                    own.append(Turn(begin, time.time()))
            order.reverse()
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(commands[0], seconds_max)
        for process, command in zip(processes, commands):
            process.send_signal(signal.SIGCONT)
            if status := process.wait(max(1.0, until - time.monotonic())):
                raise subprocess.CalledProcessError(status, command)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return turns


def whole_steps(steps: list[Step], own: list[Turn]) -> list[float]:
    """Seconds of the steps that lie in a turn, the first turn left out: it is for warming up."""
    return [step.seconds for step in steps if any(step.lies_in(turn) for turn in own[1:])]
