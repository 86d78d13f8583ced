"""The anchor of ./bench.sh language: `transformers` and nothing else.

    language_loop.py train STEPS THREADS           a GPT-2 of language.toml's sizes, a plain loop
    language_loop.py write FOLDER TOKENS THREADS   greedy text of the exported model

`train` makes steps of 4 rows in micro-batches of 2, of ids that are drawn beforehand, with
gradients limited in norm and AdamW, and nothing is dropped out. Each prints one JSON object.
"""

import json
import sys
import time

import torch
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel,
                          StoppingCriteria, StoppingCriteriaList)

MICRO, TARGET, LENGTH, VOCABULARY = 2, 4, 256, 4096
PROMPT = "And God said unto"


def train(steps: int) -> dict:
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_embd=256, n_layer=6, n_head=4, n_positions=LENGTH,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95),
                                  weight_decay=0.1)
    ids = torch.randint(0, VOCABULARY, (64, MICRO, LENGTH))
    ends, seconds, drawn = [], [], 0
    before = time.time()
    for _ in range(steps):
        for _ in range(TARGET // MICRO):
            rows = ids[drawn % len(ids)]
            drawn += 1
            loss = model(input_ids=rows, labels=rows).loss / (TARGET // MICRO)
            loss.backward()
            loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        now = time.time()
        ends.append(round(now, 4))
        seconds.append(round(now - before, 6))
        before = now
    return {"ends": ends, "seconds": seconds, "parameters": model.num_parameters()}


class Clock(StoppingCriteria):
    """Notes when each token is written; it never ends the text."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids, scores, **_) -> bool:
        self.times.append(time.perf_counter())
        return False


def write(folder: str, tokens: int) -> dict:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(PROMPT)["input_ids"]]])
    rates = []
    with torch.no_grad():
        for _ in range(3):  # the first warms up
            clock = Clock()
            model.generate(ids, max_new_tokens=tokens, do_sample=False, use_cache=True,
                           eos_token_id=None, pad_token_id=0,
                           stopping_criteria=StoppingCriteriaList([clock]))
            rates.append((len(clock.times) - 1) / (clock.times[-1] - clock.times[0]))
    return {"tokens_per_s": max(rates[1:]), "parameters": model.num_parameters()}


def main(kind: str, *words: str) -> None:
    torch.set_num_threads(int(words[-1]))
    print(json.dumps(train(int(words[0])) if kind == "train" else write(words[0], int(words[1]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
