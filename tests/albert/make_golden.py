"""Makes the golden files of the ALBERT tests with Hugging Face's own model.

    python3 -m venv --system-site-packages venv        # beside Debian's python3-torch
    venv/bin/pip install transformers==4.36.2 'numpy<2' safetensors==0.4.1
    venv/bin/python tests/albert/make_golden.py [tests/vectors/albert]

Writes, for two small models with random weights (dropout off):

    NAME.safetensors   the weights, "batch.*" (one batch), "loss", "gradient.*" of that loss,
                       computed in double precision
    NAME.json          the model's config, as Hugging Face writes it, and the loss as a decimal

and lamb.safetensors: 100 steps of LAMB in numpy, in double precision (lamb_reference.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from transformers import AlbertConfig, AlbertForPreTraining

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lamb_reference  # noqa: E402

_MODELS = {
    # name: (vocabulary, embedding, hidden, layers, heads, feed_forward, positions, deviation)
    "tiny": (40, 6, 8, 3, 2, 12, 16, 0.02),
    # Larger weights: attention and GELU leave their linear range.
    "lively": (50, 8, 24, 4, 3, 32, 12, 0.25),
}


def _config(sizes: tuple) -> AlbertConfig:
    return AlbertConfig(
        vocab_size=sizes[0],
        embedding_size=sizes[1],
        hidden_size=sizes[2],
        num_hidden_layers=sizes[3],
        num_attention_heads=sizes[4],
        intermediate_size=sizes[5],
        max_position_embeddings=sizes[6],
        initializer_range=sizes[7],
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
    )


def _batch(vocabulary: int, columns: int, random: numpy.random.Generator) -> dict:
    """Three rows of different lengths, two segments each, some words masked."""
    rows = 3
    batch = {
        name: numpy.zeros((rows, columns), dtype=numpy.int64)
        for name in ("input_ids", "token_type_ids", "attention_mask")
    }
    batch["labels"] = numpy.full((rows, columns), -100, dtype=numpy.int64)
    for row, length in enumerate((columns, columns - 3, columns - 1)):
        ids = random.integers(5, vocabulary, length)
        ids[0], ids[length // 2], ids[-1] = 2, 3, 3
        batch["input_ids"][row, :length] = ids
        batch["attention_mask"][row, :length] = 1
        batch["token_type_ids"][row, length // 2 + 1 : length] = 1
        for column in (1, 3 + row):
            batch["labels"][row, column] = ids[column]
            batch["input_ids"][row, column] = 4
    batch["labels"][0, 5] = batch["input_ids"][0, 5]
    batch["sentence_order_label"] = numpy.array([0, 1, 1], dtype=numpy.int64)
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def _make(folder: Path, name: str, sizes: tuple) -> None:
    torch.manual_seed(17)
    model = AlbertForPreTraining(_config(sizes))
    model.eval()
    with torch.no_grad():  # biases and norms away from 0 and 1: errors in them must show
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    batch = _batch(sizes[0], sizes[6] - 2, numpy.random.default_rng(5))
    model.double()  # what fp32 rounds away is not the golden file's
    loss = model(**batch).loss
    loss.backward()
    tensors = {}
    for path, parameter in model.named_parameters():  # tied weights come once
        tensors[path] = parameter.detach().float().clone()
        tensors["gradient." + path] = parameter.grad.float().clone()
    for path, values in batch.items():
        tensors["batch." + path] = values.clone()
    tensors["loss"] = loss.detach().float().reshape(1)
    save_file(tensors, str(folder / f"{name}.safetensors"), metadata={"format": "pt"})
    description = {"config": model.config.to_diff_dict(), "loss": float(loss)}
    text = json.dumps(description, indent=2, sort_keys=True)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {model.num_parameters()} parameters, loss {float(loss):.7f}")


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests/vectors/albert"
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes in _MODELS.items():
        _make(folder, name, sizes)
    lamb_reference.write(folder / "lamb.safetensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
