"""The words of Debian's package bible-kjv, in the place of Wikitext."""

import os
import subprocess

import torch


class Corpus:
    """train, valid and test: numbers of words, one after the other."""

    def __init__(self, verses=31102):
        text = os.environ.get("DEDLOC_TEXT")
        if text is None:
            text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True,
                                  text=True, check=True).stdout
        lines = [line.split()[1:] + ["<eos>"] for line in text.splitlines()[:verses]]
        self.words = sorted({word for line in lines for word in line})
        numbers = {word: number for number, word in enumerate(self.words)}
        tokens = torch.tensor([numbers[word] for line in lines for word in line])
        ninetieth, rest = len(tokens) * 9 // 10, len(tokens) // 20
        self.train, self.valid, self.test = tokens.split(
            [ninetieth, rest, len(tokens) - ninetieth - rest])
