"""A Python with `transformers` and its kin from PyPI, beside Debian's torch: for the oracle of
language models, and for ./bench.sh language. Other oracles take venv_python() alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

PACKAGES = ["transformers==4.36.2", "tokenizers==0.15.2", "peft==0.7.1", "accelerate==0.25.0",
            "numpy<2"]
DEBIAN_PYTHON = "/usr/bin/python3"  # the one that has Debian's torch


class Unavailable(Exception):
    """A program or a package is not here; the text tells people which."""


def python_with_packages(build: Path) -> Path:
    """The interpreter of build/oracles, which is made first if need be (a minute)."""
    if subprocess.run([DEBIAN_PYTHON, "-c", "import torch"], capture_output=True,
                      check=False).returncode != 0:
        raise Unavailable("Debian's python3-torch is not installed")
    return venv_python(build / "oracles" / "venv-peft", PACKAGES, DEBIAN_PYTHON,
                       "--system-site-packages")


def venv_python(folder: Path, packages: "list[str]", python: str, *options: str) -> Path:
    """The interpreter of a virtual environment with these packages, made first if need be by
    `python` and these options of its module venv."""
    own = folder / "bin" / "python"
    if (folder / "complete").exists():
        return own
    made = subprocess.run([python, "-m", "venv", *options, folder],
                          capture_output=True, text=True, check=False)
    if made.returncode == 0:
        made = subprocess.run([own, "-m", "pip", "install", "-q", *packages],
                              capture_output=True, text=True, check=False)
    if made.returncode != 0:
        said = (made.stderr or made.stdout).strip().splitlines() or ["no word"]
        raise Unavailable(f"the packages cannot be installed: {said[-1]}")
    (folder / "complete").touch()
    return own
