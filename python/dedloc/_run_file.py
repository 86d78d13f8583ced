"""The text of a run file from Python's words. What the words may be is the engine's to say: keys
and values go through, but for some names that PyTorch has for the same."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Optional

from .errors import BadInput

SECTIONS = ("batch", "optimizer", "schedule", "local", "averaging", "robust", "stop", "checkpoint",
            "evaluate", "experts")
# An own loop's section of the experts that it calls: each key, as those who serve them read it.
_EXPERTS = {"name": "ffn", "grid": "4x4", "width": 0, "hidden": 512, "best": 4, "at_least": 1,
            "update_batch": 1024, "keepers": 2, "rate": 0.001}


# The examples of sections that errors show.
_EXAMPLES = {"optimizer": '"sgd", or dict(kind="adamw", lr=0.001)',
             "schedule": '0.001, or dict(kind="cosine", peak=0.001, total_steps=1000)',
             "stop": "dict(steps=1000)", "checkpoint": "dict(every=50)",
             "evaluate": "dict(every=10)"}


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if hasattr(value, "__float__"):
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            number = math.nan
        if math.isfinite(number):
            return repr(number)
    raise BadInput(f"{key} is {value!r}; a run file holds numbers, texts, True and False")


def _section(name: str, given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"kind": given}
    if name == "schedule" and isinstance(given, (int, float)):
        return {"peak": given}
    if not isinstance(given, Mapping):
        example = f": {_EXAMPLES[name]}" if name in _EXAMPLES else ""
        raise BadInput(f"{name}= is {given!r}; write a dictionary of what the run file's [{name}] "
                       f"may have{example}")
    return dict(given)


def _optimizer_and_schedule(sections: dict[str, dict[str, Any]]) -> None:
    """lr, betas and eps, as PyTorch calls them."""
    optimizer = sections.get("optimizer")
    if optimizer is None:
        return
    if "lr" in optimizer:
        schedule = sections.setdefault("schedule", {})
        if "peak" in schedule:
            raise BadInput("the learning rate is there twice: optimizer's lr and schedule's peak")
        schedule["peak"] = optimizer.pop("lr")
    if "betas" in optimizer:
        optimizer["beta1"], optimizer["beta2"] = optimizer.pop("betas")
    if "eps" in optimizer:
        optimizer["epsilon"] = optimizer.pop("eps")


def _experts(given: dict[str, Any]) -> dict[str, Any]:
    for key in given:
        if key not in _EXPERTS:
            raise BadInput(f"experts= has no {key!r}; it has {', '.join(_EXPERTS)}")
    if "width" not in given:
        raise BadInput("experts= needs width=, the numbers in a row that the mixture is given")
    return {key: type(usual)(given.get(key, usual)) for key, usual in _EXPERTS.items()}


def _lines(name: str, values: Mapping[str, Any]) -> list[str]:
    lines = [f"[{name}]"]
    below = []
    for key, value in values.items():
        if not str(key).replace("_", "").isalnum():
            raise BadInput(f"[{name}] has no {key!r}")
        if key in ("optimizer", "schedule") and not isinstance(value, bool):
            below.append((f"{name}.{key}", _section(key, value)))
        else:
            lines.append(f"{key} = {_word(f'{name}.{key}', value)}")
    for inner, inner_values in below:
        lines += _lines(inner, inner_values)
    return lines


def text_of(run_name: str, target_batch: Optional[int], given: Mapping[str, Any]) -> str:
    """given: sections by name; None: not there."""
    sections = {name: _section(name, given[name]) for name in SECTIONS
                if given.get(name) is not None}
    batch = sections.setdefault("batch", {})
    if target_batch is not None:
        batch["target"] = target_batch
    if "target" not in batch:
        raise BadInput("a run needs target_batch=, the samples of all peers together for one step")
    batch.setdefault("micro", 1)  # a loop of one's own makes its batches itself
    _optimizer_and_schedule(sections)
    local = sections.get("local")
    if local is not None:
        inner = {key: _section(key, local[key]) for key in ("optimizer", "schedule")
                 if key in local}
        _optimizer_and_schedule(inner)
        local.update(inner)
    lines = []
    if "experts" in sections:
        sections["experts"] = _experts(sections["experts"])
        lines.append("format = 1")  # as peers write it: sections that the engine does not know pass
    lines += [f"name = {_word('name', run_name)}", "", "[task]", 'kind = "own_loop"']
    for name, values in sections.items():
        lines += ["", *_lines(name, values)]
    return "\n".join(lines) + "\n"
