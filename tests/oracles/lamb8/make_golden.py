#!/usr/bin/env python3
"""The code books of bitsandbytes 0.41.3 for lamb8_test.cpp.

  pip download --no-deps bitsandbytes==0.41.3
  unzip bitsandbytes-0.41.3-*.whl bitsandbytes/functional.py
  python3 make_golden.py bitsandbytes/functional.py > golden.txt   # python3-torch is Debian's

One function of that file is run, as the package itself wants a CUDA library. Output: a line for
each book, signed first, of 256 numbers with nine digits, which tell any two floats apart.
"""
import ast
import sys
from pathlib import Path

import torch


def load(path):
    tree = ast.parse(Path(path).read_text())
    found = [part for part in tree.body
             if isinstance(part, ast.FunctionDef) and part.name == "create_dynamic_map"]
    names = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(ast.Module(found, []), path, "exec"), names)  # pylint: disable=exec-used
    return names["create_dynamic_map"]


if __name__ == "__main__":
    create_dynamic_map = load(sys.argv[1])
    for signed in (True, False):
        print(" ".join(f"{value:.9g}" for value in create_dynamic_map(signed).tolist()))
