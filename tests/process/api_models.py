"""Models of a few steps, for tests of `dedloc serve-api` elsewhere: its page, foreign clients."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import harness
import test_language_model
import test_pictures

ROOT = Path(__file__).resolve().parents[2]


class Trained:
    """A folder with models of a few steps."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dedloc-api-page-"))
        self.peers: list = []
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def train(self, name: str, run: str, data: Path) -> str:
        path = self.folder / f"{name}.toml"
        path.write_text(run)
        host = harness.Peer(self, ["host", str(path), "--data", str(data)], self.folder / name)
        assert host.end(200) == harness.OK, host.errors()
        return str(host.directory)

    def writer(self) -> str:
        words = self.folder / "data/words"
        words.mkdir(parents=True)
        for document in sorted((ROOT / "docs").glob("*.md"))[:12]:
            shutil.copy(document, words / (document.stem + ".txt"))
        stop = "[stop]\nsteps = 5\n"
        return self.train("writer", test_language_model.RUN + stop, self.folder / "data")

    def painter(self) -> str:
        folder = self.folder / "pictures"
        folder.mkdir()
        test_pictures.write_pictures(folder)
        run = test_pictures.RUN.format(steps=2, checkpoint_every=2)
        return self.train("painter", run, folder)

    def end(self) -> None:
        for peer in self.peers:
            peer.stop_for_good()
        shutil.rmtree(self.folder, ignore_errors=True)
