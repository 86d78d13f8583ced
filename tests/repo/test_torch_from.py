"""A folder that is no PyTorch to build with is refused with a sentence that says so."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def configured(folder: Path) -> str:
    done = subprocess.run(
        ["cmake", f"-DDEDLOC_TORCH_FROM={folder}", "-P", str(ROOT / "cmake/DedlocTorch.cmake")],
        capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def made_torch(folder: Path, abi: int) -> None:
    for name in ("include/torch/csrc/api/include/torch/torch.h", "lib/libtorch_cpu.so",
                 "lib/libc10.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    config = folder / "share/cmake/Torch/TorchConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text(f'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={abi}")\n', encoding="utf-8")


class TorchFrom(unittest.TestCase):
    def test_names_what_is_missing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = configured(Path(folder))
        self.assertIn("there is no include/torch/csrc/api/include/torch/torch.h in", said)

    def test_refuses_the_old_abi(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made_torch(Path(folder), 0)
            said = configured(Path(folder))
        self.assertIn("old C++ ABI; take 2.7 or newer", said)


if __name__ == "__main__":
    unittest.main()
