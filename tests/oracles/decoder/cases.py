"""The cases of tests/oracles/language."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from texts import SENTENCES, all_characters, texts
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel,
                          LlamaConfig, LlamaForCausalLM)

CLOSE = 1e-4
END = "<|endoftext|>"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass
class Tools:
    oracle: Path
    program: Path
    scratch: Path

    def ask(self, what: str, model: Path, given: Path, out: Path) -> None:
        subprocess.run([self.oracle, what, model, given, out], check=True, timeout=300)

    def ids(self, tokenizer: Path, of: list[str]) -> list[dict]:
        given, out = self.scratch / "texts.json", self.scratch / "ids.json"
        given.write_text(json.dumps(of), encoding="utf-8")
        self.ask("ids", tokenizer, given, out)
        return json.loads(out.read_text(encoding="utf-8"))

    def dedloc(self, folder: Path, *words: str) -> dict:
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.scratch / "cache")}
        done = subprocess.run([self.program, *words, "--json"], cwd=folder, env=environment,
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {done.stdout[-1000:]} {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one - other).abs().max().item()


# Models

def batch_of(vocabulary: int, rows: int, columns: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(0, vocabulary, (rows, columns), generator=draw)
    labels = torch.full_like(ids, -100)
    labels[:, :-1] = ids[:, 1:]
    return {"ids": ids, "labels": labels, "segments": torch.zeros_like(ids),
            "positions": torch.arange(columns).repeat(rows, 1).contiguous()}


def compare_model(tools: Tools, name: str, model: torch.nn.Module) -> str:
    folder = tools.scratch / name
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    model.save_pretrained(folder, safe_serialization=True)
    batch = batch_of(model.config.vocab_size, 3, 24)
    given, out = tools.scratch / "batch.safetensors", tools.scratch / "out.safetensors"
    save_file(batch, given)
    tools.ask("gradients", folder, given, out)
    ours = load_file(out)
    theirs = model(input_ids=batch["ids"], labels=batch["ids"])
    theirs.loss.backward()
    # The reference loss is the mean of a token that is predicted, ours of a place in the row.
    scale = batch["ids"].shape[1] / (batch["labels"] >= 0).sum().item()
    worst = {"logits": apart(ours["logits"], theirs.logits),
             "loss": abs(ours["loss"].item() * scale - theirs.loss.item())}
    named = dict(model.named_parameters())
    gradients = {key.removeprefix("gradient."): value for key, value in ours.items()
                 if key.startswith("gradient.")}
    assert gradients.keys() == named.keys(), gradients.keys() ^ named.keys()
    worst["gradients"] = max(apart(gradients[key] * scale, named[key].grad) for key in named)
    assert all(value < CLOSE for value in worst.values()), worst
    return ", ".join(f"{key} {value:.1e}" for key, value in worst.items())


def gpt2(tools: Tools) -> str:
    torch.manual_seed(1)
    return compare_model(tools, "gpt2", GPT2LMHeadModel(GPT2Config(
        vocab_size=131, n_embd=48, n_layer=3, n_head=4, n_positions=32)))


def llama(tools: Tools) -> str:
    torch.manual_seed(2)
    return compare_model(tools, "llama", LlamaForCausalLM(LlamaConfig(
        vocab_size=131, hidden_size=48, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=32, rms_norm_eps=1e-5)))


def llama_groups(tools: Tools) -> str:
    torch.manual_seed(3)
    return compare_model(tools, "groups", LlamaForCausalLM(LlamaConfig(
        vocab_size=131, hidden_size=64, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=64,
        rope_theta=500000.0, tie_word_embeddings=True)))


# Adapters

def compare_lora(tools: Tools, name: str, model: torch.nn.Module) -> str:
    from peft import PeftModel

    folder, out = tools.scratch / name, tools.scratch / f"{name}-adapter"
    out.mkdir()
    model.eval()
    model.save_pretrained(folder, safe_serialization=True)
    batch = batch_of(model.config.vocab_size, 3, 24)
    given = tools.scratch / "batch.safetensors"
    save_file(batch, given)
    tools.ask("lora", folder, given, out)
    ours = load_file(out / "out.safetensors")
    theirs = PeftModel.from_pretrained(model, str(out), is_trainable=True)
    answer = theirs(input_ids=batch["ids"], labels=batch["ids"])
    answer.loss.backward()
    scale = batch["ids"].shape[1] / (batch["labels"] >= 0).sum().item()
    named = {key.removeprefix("base_model.model.").replace(".default.", "."): value
             for key, value in theirs.named_parameters() if value.requires_grad}
    gradients = {key.removeprefix("gradient."): value for key, value in ours.items()
                 if key.startswith("gradient.")}
    assert gradients.keys() == named.keys(), gradients.keys() ^ named.keys()
    worst = {"logits": apart(ours["logits"], answer.logits),
             "gradients": max(apart(gradients[key] * scale, named[key].grad) for key in named)}
    merged, own = theirs.merge_and_unload().state_dict(), load_file(out / "merged.safetensors")
    worst["merged"] = max(apart(own[key], merged[key]) for key in own)
    assert all(value < CLOSE for value in worst.values()), worst
    return ", ".join(f"{key} {value:.1e}" for key, value in worst.items())


def lora_gpt2(tools: Tools) -> str:
    torch.manual_seed(4)
    return compare_lora(tools, "lora-gpt2", GPT2LMHeadModel(GPT2Config(
        vocab_size=131, n_embd=48, n_layer=2, n_head=4, n_positions=32)))


def lora_llama(tools: Tools) -> str:
    torch.manual_seed(5)
    return compare_lora(tools, "lora-llama", LlamaForCausalLM(LlamaConfig(
        vocab_size=131, hidden_size=64, intermediate_size=80, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=64)))


# Tokenizers

def byte_level(pre_tokenizer) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def split_by(pattern: str):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def characters(metaspace: bool) -> Tokenizer:
    """As Llama 2 has it: in old files by a normalizer, in new ones by Metaspace."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁")
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                                     normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False,
                                  limit_alphabet=150)
    # Whole texts without words would make sentences into pieces.
    training = [word for text in texts() for word in text.split(" ")]
    tokenizer.train_from_iterator(training, trainer)
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(file))


def compare_ids(tools: Tools, name: str, tokenizer: Tokenizer, more: list[str] = ()) -> str:
    path = tools.scratch / f"{name}.json"
    tokenizer.save(str(path))
    given = [*texts(), *more]
    ours = tools.ids(path, given)
    count = 0
    for text, own in zip(given, ours):
        theirs = tokenizer.encode(text, add_special_tokens=False).ids
        assert own["ids"] == theirs, (text[:80], own["ids"][:40], theirs[:40])
        count += len(theirs)
    return f"{len(given)} texts, {count} ids"


def tokenizer_gpt2(tools: Tools) -> str:
    made = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    return compare_ids(tools, "gpt2_tokenizer", made, all_characters())


def tokenizer_prefix_space(tools: Tools) -> str:
    made = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    return compare_ids(tools, "prefix_space", made)


def tokenizer_llama3(tools: Tools) -> str:
    return compare_ids(tools, "llama3", byte_level(split_by(LLAMA3)), all_characters())


def tokenizer_qwen2(tools: Tools) -> str:
    return compare_ids(tools, "qwen2", byte_level(split_by(QWEN2)))


def tokenizer_digits(tools: Tools) -> str:
    return compare_ids(tools, "digits", byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])))


def tokenizer_characters(tools: Tools) -> str:
    return compare_ids(tools, "characters", characters(False))


def tokenizer_metaspace(tools: Tools) -> str:
    return compare_ids(tools, "metaspace", characters(True))


def training(tools: Tools) -> str:
    folder = tools.scratch / "training"
    folder.mkdir()
    lines = [line for text in SENTENCES for line in text.splitlines() if line.strip()]
    paragraphs = [line.strip() for line in lines] * 3
    (folder / "text.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    said = tools.dedloc(folder, "tokenizer", "train", "--input", "text:text.txt?documents=line",
                        "--kind", "byte_bpe", "--vocab-size", "700", "--output",
                        "tokenizer.json", "--data", ".")
    ours = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(paragraphs, trainer)
    theirs = json.loads(tokenizer.to_str())["model"]
    # The held-out part of a text this short is none.
    assert ours["vocab"] == theirs["vocab"]
    assert ours["merges"] == theirs["merges"]
    return f"{len(theirs['merges'])} merges, {said['bytes_per_token']:.2f} bytes a token"


# A run of our own

RUN = """
name = "export"
[task]
kind = "language_model"
model = "{model}"
data = "text:text.txt?documents=line"
[language_model]
vocabulary = 600
hidden = 32
layers = 2
heads = 4
key_value_heads = {groups}
feed_forward = 64
positions = 64
tied = {tied}
[text]
tokenizer = "kind=byte_bpe&vocabulary=600"
length = 48
held_out = 0.2
held_out_samples = 4
window_samples = 64
[batch]
target = 16
micro = 8
[optimizer]
kind = "adamw"
[schedule]
peak = 0.01
[stop]
steps = {steps}
"""


def own_run(tools: Tools, model: str, groups: int, tied: bool) -> str:
    folder = tools.scratch / f"run_{model}"
    folder.mkdir()
    lines = [line for text in texts() for line in text.splitlines() if line.strip()]
    (folder / "text.txt").write_text("\n".join(lines * 3), encoding="utf-8")
    settings = {"model": model, "groups": groups, "tied": str(tied).lower()}
    (folder / "run.toml").write_text(RUN.format(steps=4, **settings), encoding="utf-8")
    tools.dedloc(folder, "host", "run.toml", "--dir", "peer", "--listen", "none", "--quiet",
                 "--data", ".")
    exported = tools.dedloc(folder, "export", "peer", "--to", "out")
    out = folder / "out"
    opened, loading = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(loading.values()), loading
    tokenizer = AutoTokenizer.from_pretrained(out)
    given = texts()
    for text, own in zip(given, tools.ids(out / "tokenizer.json", given)):
        assert own["ids"] == tokenizer(text)["input_ids"], text
    batch = batch_of(600, 2, 48)
    save_file(batch, folder / "batch.safetensors")
    tools.ask("gradients", out, folder / "batch.safetensors", folder / "out.safetensors")
    with torch.no_grad():
        difference = apart(load_file(folder / "out.safetensors")["logits"],
                           opened(batch["ids"]).logits)
    assert difference < CLOSE, difference
    check_greedy(tools, folder, opened, tokenizer)
    # The folder that transformers writes back begins another run, with the same model.
    opened.save_pretrained(folder / "theirs", safe_serialization=True)
    tokenizer.save_pretrained(folder / "theirs")
    (folder / "next.toml").write_text(RUN.format(steps=1, **settings), encoding="utf-8")
    tools.dedloc(folder, "host", "next.toml", "--weights", "theirs", "--dir", "next",
                 "--listen", "none", "--quiet", "--data", ".")
    return f"logits {difference:.1e}, {len(exported['files'])} files"


def check_greedy(tools: Tools, folder: Path, model, tokenizer) -> None:
    """With keys and values kept, both write the same."""
    prompt = "In the beginning"
    said = tools.dedloc(folder, "sample", "peer", "--prompt", prompt, "--temperature", "0",
                        "--tokens", "24")
    ids = [0] + tokenizer(prompt)["input_ids"]
    with torch.no_grad():
        theirs = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False,
                                pad_token_id=0)[0, len(ids):]
    # A model this young writes bytes that are no characters: how many U+FFFD those are differs.
    wanted, own = (re.sub("\ufffd+", "?", text) for text in (
        tokenizer.decode(theirs, skip_special_tokens=True), said["texts"][0]["text"]))
    assert own == wanted, (own, wanted)


def run_gpt2(tools: Tools) -> str:
    return own_run(tools, "gpt2", 4, True)


def run_llama(tools: Tools) -> str:
    return own_run(tools, "llama", 2, False)


def all_cases():
    return [("model.gpt2", gpt2), ("model.llama", llama), ("model.llama_groups", llama_groups),
            ("lora.gpt2", lora_gpt2), ("lora.llama", lora_llama),
            ("tokenizer.gpt2", tokenizer_gpt2), ("tokenizer.prefix_space", tokenizer_prefix_space),
            ("tokenizer.llama3", tokenizer_llama3), ("tokenizer.qwen2", tokenizer_qwen2),
            ("tokenizer.digits", tokenizer_digits),
            ("tokenizer.characters", tokenizer_characters),
            ("tokenizer.metaspace", tokenizer_metaspace), ("training", training),
            ("run.gpt2", run_gpt2), ("run.llama", run_llama)]
