#!/usr/bin/env python3
"""Losses, predictions and scores of Hugging Face's heads for albert_tuner_test.cpp.

  pip install transformers==4.36.2 seqeval==1.2.2       # torch: Debian's python3-torch
  python3 make_golden.py HIRONSAN.TXT > golden.json     # from tools/test_data.sh

Weights, ids and labels are functions of their place (weight() and noise() below, and in the test),
so that the file holds results alone:

  entities, classes  loss and logits of AlbertForTokenClassification and
                     AlbertForSequenceClassification on one batch
  sentences          what AlbertForTokenClassification predicts for the 500 hand-labelled sentences
                     of hironsancorpus 0.1.2, its mean loss, and what seqeval says of it
  seqeval            what seqeval says there of predictions that are wrong by rule
"""
import json
import math
import re
import sys

import torch
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from transformers import AlbertConfig, AlbertForSequenceClassification, AlbertForTokenClassification

ROWS, COLUMNS, LABELS = 3, 12, 5
CONFIG = dict(vocab_size=60, embedding_size=8, hidden_size=16, num_hidden_layers=3,
              num_attention_heads=4, intermediate_size=32, max_position_embeddings=16,
              hidden_dropout_prob=0, attention_probs_dropout_prob=0, hidden_act="gelu_new",
              num_labels=LABELS, classifier_dropout_prob=0.1)


def weight(name, count):
    """A wave that depends on the letters of the name; norms are around one."""
    phase = sum(ord(letter) for letter in name) % 97
    middle = 1.0 if name.lower().find("norm.weight") >= 0 else 0.0
    return torch.tensor([middle + 0.2 * math.sin(0.37 * i + phase) for i in range(count)],
                        dtype=torch.float32)


def noise(name, count):
    """Numbers without a pattern, so that words are told apart."""
    phase = sum(ord(letter) for letter in name) % 97
    middle = 1.0 if name.lower().find("norm.weight") >= 0 else 0.0
    hashed = [math.sin(12.9898 * i + phase) * 437.5 for i in range(count)]
    return torch.tensor([middle + hash - math.floor(hash) - 0.5 for hash in hashed],
                        dtype=torch.float32)


def fill(model, values=weight):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values(name, parameter.numel()).view(parameter.shape))


def batch():
    ids = torch.tensor([[5 + (7 * r + 3 * c) % 50 for c in range(COLUMNS)] for r in range(ROWS)])
    mask = torch.tensor([[1 if c < COLUMNS - 2 * r else 0 for c in range(COLUMNS)]
                         for r in range(ROWS)])
    words = torch.tensor([[(r + c) % LABELS if mask[r][c] and c % 3 != 2 else -100
                           for c in range(COLUMNS)] for r in range(ROWS)])
    return ids, mask, words, torch.tensor([r % LABELS for r in range(ROWS)])


def losses():
    ids, mask, words, classes = batch()
    result = {}
    for key, kind, labels in (("entities", AlbertForTokenClassification, words),
                              ("classes", AlbertForSequenceClassification, classes)):
        model = kind(AlbertConfig(**CONFIG)).eval()
        fill(model)
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=mask, labels=labels)
        result[key] = {"loss": out.loss.item(), "guesses": out.logits.argmax(-1).flatten().tolist(),
                       "logits": [round(x, 7) for x in out.logits.flatten().tolist()]}
    return result


def sentences(path):
    """Words and labels. Some words are blanks of other scripts, so fields end at ASCII's alone."""
    found = []
    for block in open(path, encoding="utf-8").read().split("\n\n"):
        rows = [re.findall(r"[^ \t]+", line) for line in block.split("\n") if line]
        if rows:
            found.append(([row[0] for row in rows], [row[-1] for row in rows]))
    return found


def predictions(path):
    """Each word is one piece, whose id its letters decide."""
    found = sentences(path)
    names = sorted({label for _, labels in found for label in labels})
    model = AlbertForTokenClassification(
        AlbertConfig(**{**CONFIG, "num_labels": len(names), "max_position_embeddings": 128})).eval()
    fill(model, noise)
    guesses, losses = [], []
    for words, labels in found:
        ids = torch.tensor([[5 + sum(word.encode()) % 55 for word in words]])
        truth = torch.tensor([[names.index(label) for label in labels]])
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=truth)
        losses.append(out.loss.item())
        guesses.append(out.logits[0].argmax(-1).tolist())
    truth = [labels for _, labels in found]
    said = [[names[guess] for guess in sentence] for sentence in guesses]
    return {"loss": sum(losses) / len(losses),
            "guesses": "".join(chr(ord("a") + guess) for sentence in guesses for guess in sentence),
            "f1": f1_score(truth, said), "precision": precision_score(truth, said),
            "recall": recall_score(truth, said), "accuracy": accuracy_score(truth, said)}


def scores(path):
    truth = [labels for _, labels in sentences(path)]
    names = sorted({label for sentence in truth for label in sentence})
    guesses, place = [], 0
    for sentence in truth:
        guesses.append([])
        for label in sentence:
            guesses[-1].append(names[place * 31 % len(names)] if place % 7 == 3 else label)
            place += 1
    return {"sentences": len(truth), "words": place, "f1": f1_score(truth, guesses),
            "precision": precision_score(truth, guesses), "recall": recall_score(truth, guesses),
            "accuracy": accuracy_score(truth, guesses)}


if __name__ == "__main__":
    json.dump({**losses(), "sentences": predictions(sys.argv[1]), "seqeval": scores(sys.argv[1])},
              sys.stdout, indent=1)
    print()
