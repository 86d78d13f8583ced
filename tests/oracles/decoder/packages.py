"""A Python with `transformers` and its kin from PyPI, beside Debian's torch: for the oracle of
language models, and for ./bench.sh language."""

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
    folder = build / "oracles" / "venv-peft"
    python = folder / "bin" / "python"
    if subprocess.run([DEBIAN_PYTHON, "-c", "import torch"], capture_output=True,
                      check=False).returncode != 0:
        raise Unavailable("Debian's python3-torch is not installed")
    if (folder / "complete").exists():
        return python
    made = subprocess.run([DEBIAN_PYTHON, "-m", "venv", "--system-site-packages", folder],
                          capture_output=True, text=True, check=False)
    if made.returncode == 0:
        made = subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES],
                              capture_output=True, text=True, check=False)
    if made.returncode != 0:
        said = (made.stderr or made.stdout).strip().splitlines() or ["no word"]
        raise Unavailable(f"the packages cannot be installed: {said[-1]}")
    (folder / "complete").touch()
    return python
