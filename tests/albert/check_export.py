"""Trains a tiny ALBERT for some steps, exports it, and opens it with Hugging Face's own code.

    DEDLOC_ALBERT_PYTHON=venv/bin/python check_export.py build/release/bin/dedloc

Their loss on a batch must be that of our TorchScript, to 1e-5, and their tokenizer must read our
sentences and give our ids, also to words with accents and capitals. Exit status: 0 equal, 1 not, 77
without transformers and what it needs (CMakeLists.txt says how to get them).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

_RUN = """
name = "export"
[task]
kind = "albert"
model = "albert"
data = "text:books?documents=paragraph"
[albert]
vocabulary = 50
embedding = 12
hidden = 24
layers = 3
heads = 3
feed_forward = 40
positions = 96
[text]
tokenizer = "vocabulary=50"
length = 32
held_out = 0.2
held_out_samples = 16
window_samples = 128
[batch]
target = 16
micro = 8
[optimizer]
kind = "lamb"
[schedule]
peak = 0.02
[stop]
steps = 5
"""


def _write_books(folder: Path) -> None:
    draw = random.Random(4)
    who = ["The king", "A shepherd", "The old ship", "My brother", "No lion"]
    did = ["went over", "looked upon", "built", "remembered", "spoke against"]
    what = ["the river", "a great city", "his father's house", "seven stars"]
    sentences = [
        f"{draw.choice(who)} {draw.choice(did)} {draw.choice(what)}." for _ in range(3000)
    ]
    paragraphs = [" ".join(sentences[i : i + 20]) for i in range(0, 3000, 20)]
    (folder / "books").mkdir()
    (folder / "books/one.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")


def _dedloc(program: str, folder: Path, *words: str) -> dict:
    command = [program, *words, "--data", str(folder), "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _export(program: str, folder: Path) -> Path:
    _write_books(folder)
    (folder / "run.toml").write_text(_RUN, encoding="utf-8")
    _dedloc(program, folder, "host", "run.toml", "--dir", "peer", "--listen", "none", "--quiet")
    _dedloc(program, folder, "export", "peer", "--to", "out")
    print(_dedloc(program, folder, "eval", "peer"))
    return folder / "out"


def _ids(program: str, out: Path, text: str) -> list[int]:
    command = [program, "tokenizer", "show", str(out / "spiece.model"), "--text", text, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)["ids"]


def _compare(program: str, out: Path) -> None:
    import torch
    from transformers import AlbertForPreTraining, AlbertTokenizer

    model, loading = AlbertForPreTraining.from_pretrained(str(out), output_loading_info=True)
    model.eval()
    for kind, names in loading.items():
        if names:
            sys.exit(f"{kind}: {names}")
    tokenizer = AlbertTokenizer.from_pretrained(str(out))
    pairs = [("The king built seven stars.", "No lion looked upon the river."), ("A ship.", "He.")]
    batch = tokenizer([a for a, _ in pairs], [b for _, b in pairs], padding=True,
                      return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[:, ::2] = -100
    labels[batch["attention_mask"] == 0] = -100
    order = torch.tensor([1, 0])
    script = torch.jit.load(str(out / "model.pt"))
    with torch.no_grad():
        theirs = model(**batch, labels=labels, sentence_order_label=order)
        words, orders = script(
            batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]
        )
        cross_entropy = torch.nn.functional.cross_entropy
        ours = cross_entropy(words.view(-1, words.size(-1)), labels.view(-1))
        ours = ours + cross_entropy(orders, order)
    print(f"loss: theirs {float(theirs.loss):.7f}, ours {float(ours):.7f}")
    if abs(float(theirs.loss) - float(ours)) > 1e-5:
        sys.exit("the losses differ")
    if tokenizer.decode(batch["input_ids"][0]).count("[SEP]") != 2:
        sys.exit("the tokenizer reads something else")
    for text in ("The king built seven stars.", "Größe naïve", "No LION"):
        theirs, ours = tokenizer.encode(text, add_special_tokens=False), _ids(program, out, text)
        print(f"{text!r}: theirs {theirs}, ours {ours}")
        if theirs != ours:
            sys.exit("the ids differ")


def main() -> int:
    python = os.environ.pop("DEDLOC_ALBERT_PYTHON", None)
    if python:
        os.execv(python, [python, *sys.argv])
    try:
        import safetensors  # noqa: F401
        import sentencepiece  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"wants pip's packages ({error}): tests/albert/CMakeLists.txt says how to get them")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        out = _export(sys.argv[1], Path(folder))
        _compare(sys.argv[1], out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
