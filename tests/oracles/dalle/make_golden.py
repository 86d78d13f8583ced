#!/usr/bin/env python3
"""Losses and gradients of dalle-pytorch 1.6.6 for text_to_image_model_test.cpp.

  python3 -m venv --system-site-packages VENV     # python3-torch is Debian's
  VENV/bin/pip install --no-deps dalle-pytorch==1.6.6 einops==0.4.1
  VENV/bin/pip install --no-deps rotary-embedding-torch==0.1.5
  VENV/bin/python make_golden.py > golden.json

Only its transformer is imported (transformer.py, attention.py, reversible.py); what
dalle_pytorch.py does around it (padding tokens, <bos>, shared embedding, loss) is ten lines below,
as that file pulls in VAEs that have to be downloaded. Weights come from a formula, so that none has
to be stored.
"""
import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
import torch.nn.functional as F

SIZES = {"width": 24, "layers": 6, "heads": 2, "head_width": 24, "text_vocabulary": 11,
         "text_length": 5, "image_vocabulary": 13, "image_side": 4}
SAMPLES = 3


def load_transformer():
    """The package's modules without its __init__."""
    place = next(p for p in sys.path if (Path(p) / "dalle_pytorch").is_dir())
    folder = Path(place) / "dalle_pytorch"
    package = types.ModuleType("dalle_pytorch")
    package.__path__ = [str(folder)]
    sys.modules["dalle_pytorch"] = package
    for name in ("reversible", "attention", "transformer"):
        spec = importlib.util.spec_from_file_location(f"dalle_pytorch.{name}",
                                                      folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules["dalle_pytorch.transformer"].Transformer


def formula(number, shape, spread, middle=0.0):
    """Parameter `number`'s weights: a hash of the place, the same in C++."""
    count = 1
    for side in shape:
        count *= side
    place = torch.arange(count, dtype=torch.int64)
    mixed = (place * 2654435761 + number * 40503 * 65536) % 4294967296 // 65536
    return (middle + spread * (mixed.double() / 32768 - 1)).float().reshape(shape)


def model_parameters(transformer, logits, norm):
    """In the order in which TextToImageModel registers them."""
    blocks = [(b.f.net, b.g.net) for b in transformer.layers.blocks] if hasattr(
        transformer.layers, "blocks") else list(transformer.layers.layers)

    def inner(part):  # LayerScale -> PreNorm -> CachedAs -> PreShiftToken -> (NonCached ->) layer
        found = part.fn.fn
        while hasattr(found, "fn"):
            found = found.fn
        return found
    first_of_set = [0, 1, 2, 3, len(blocks) - 1]
    ordered = []
    for index in first_of_set:
        attention, feed = inner(blocks[index][0]), inner(blocks[index][1])
        ordered += [attention.to_qkv.weight, attention.to_out[0].weight, attention.to_out[0].bias,
                    feed.net[0].weight, feed.net[0].bias, feed.net[3].weight, feed.net[3].bias]
    for block in blocks:
        for part in block:
            ordered += [part.fn.norm.weight, part.fn.norm.bias, part.scale]
    return ordered + [norm.weight, norm.bias, logits.weight, logits.bias]


def run(reversible):
    s = SIZES
    text_tokens = s["text_vocabulary"] + s["text_length"]
    sequence = s["text_length"] + s["image_side"] ** 2
    ids = [i % 4 for i in range(s["layers"] - 1)] + [4]
    types_ = ["axial_row", "axial_col", "axial_row", "axial_row"]
    kinds = [types_[i % 4] for i in range(s["layers"] - 1)] + ["conv_like"]
    transformer = load_transformer()(
        dim=s["width"], depth=s["layers"], seq_len=sequence, reversible=reversible,
        heads=s["heads"], dim_head=s["head_width"], attn_types=kinds, shift_tokens=True,
        image_fmap_size=s["image_side"], rotary_emb=True, shared_attn_ids=ids, shared_ff_ids=ids)
    norm = torch.nn.LayerNorm(s["width"])
    logits = torch.nn.Linear(s["width"], text_tokens + s["image_vocabulary"])
    ordered = model_parameters(transformer, logits, norm)
    with torch.no_grad():
        for number, parameter in enumerate(ordered):
            is_vector = parameter.numel() == s["width"]
            parameter.copy_(formula(number, tuple(parameter.shape), 0.3, 0.5 if is_vector else 0.0))
    text = formula(1000, (SAMPLES, s["text_length"]), 5.4, 5.5).long()
    codes = formula(1001, (SAMPLES, s["image_side"] ** 2), 6.4, 6.5).long()
    pads = torch.arange(s["text_length"]) + s["text_vocabulary"]
    padded = F.pad(torch.where(text == 0, pads, text), (1, 0))
    tokens = torch.cat((padded, codes + text_tokens), 1)[:, :-1]
    out = norm(transformer(F.embedding(tokens, logits.weight)))
    scores = logits(out).transpose(1, 2)
    masked = scores.clone()
    masked[:, text_tokens:, :s["text_length"]] = -torch.finfo(scores.dtype).max
    masked[:, :text_tokens, s["text_length"]:] = -torch.finfo(scores.dtype).max
    of_text = F.cross_entropy(masked[:, :, :s["text_length"]], padded[:, 1:])
    of_image = F.cross_entropy(masked[:, :, s["text_length"]:], codes + text_tokens)
    loss = (of_text + 7 * of_image) / 8
    loss.backward()
    return {"reversible": reversible, "text": of_text.item(), "image": of_image.item(),
            "loss": loss.item(),
            "gradient_norms": [p.grad.double().norm().item() for p in ordered],
            "gradient_sums": [p.grad.double().sum().item() for p in ordered]}


if __name__ == "__main__":
    torch.manual_seed(0)
    both = [run(False), run(True)]
    print(json.dumps({"sizes": SIZES, "samples": SAMPLES, "runs": both}, indent=1))
