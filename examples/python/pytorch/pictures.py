"""The pictures of Debian's package dataset-fashion-mnist, in the place of torchvision.datasets."""

import gzip
import os

import torch

FOLDER = os.environ.get("DEDLOC_PICTURES", "/usr/share/datasets/fashion-mnist")


class FashionMNIST(torch.utils.data.Dataset):
    """train: 60,000 pictures to train on, or 10,000 others."""

    def __init__(self, train=True):
        part = "train" if train else "t10k"
        pixels = self._read(f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
        self.data = pixels.float().div_(255).sub_(0.2860).div_(0.3530)
        self.targets = self._read(f"{part}-labels-idx1-ubyte", 8).long()

    @staticmethod
    def _read(name, header):
        with gzip.open(f"{FOLDER}/{name}.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.data[index], self.targets[index]
