"""A model as a safetensors file."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Mapping, Optional

import torch


# As the format spells them (https://github.com/huggingface/safetensors).
_TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
          torch.uint8: "U8", torch.bool: "BOOL"}


def save_safetensors(model: torch.nn.Module, path: "str | os.PathLike[str]",
                     metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes the model's parameters and persistent buffers as one safetensors file, under the names
    of ``state_dict()``; of tied tensors the first name.

    metadata: texts by name, for the file's head.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    stored, seen, end = [], set(), 0
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        values = tensor.detach().cpu().contiguous()
        count = values.numel() * values.element_size()
        header[name] = {"dtype": _TYPES[values.dtype], "shape": list(values.shape),
                        "data_offsets": [end, end + count]}
        end += count
        stored.append(values)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    beside = f"{os.fspath(path)}.part"  # whole, or not at all
    with open(beside, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for values in stored:
            if values.numel():
                size = values.numel() * values.element_size()
                file.write((ctypes.c_char * size).from_address(values.data_ptr()))
    os.replace(beside, path)
