#!/usr/bin/env bash
# dedloc for a machine with an NVIDIA card: installs what it needs, builds build/gpu/bin/dedloc
# with the libtorch inside PyTorch, as Debian's knows no CUDA (docs/gpu.md).
#
#   ./gpu.sh                            takes the PyTorch that python3 imports, if it was built for
#                                       CUDA; else installs one into build/pytorch (3 GB to fetch)
#   PYTHON=~/venv/bin/python3 ./gpu.sh  takes that one's
set -euo pipefail
[[ ${PYTHON:-/} != [!/]*/* ]] || PYTHON=$PWD/$PYTHON
cd "$(dirname "$0")"
source tools/needs.sh

own=build/pytorch/bin/python3

# The folder of a PyTorch, if that is one to build with.
torch_of() {
    "$1" - 2>/dev/null <<'PY'
import sys, torch
if not (torch.version.cuda and torch.compiled_with_cxx11_abi()):
    sys.exit(1)
print(torch.__path__[0])
PY
}

needs=()
for package in "${needs_build[@]}"; do
    [[ $package == libtorch-dev ]] || needs+=("$package")
done
install_missing "${needs[@]}"

python=${PYTHON:-python3}
if ! torch=$(torch_of "$python"); then
    if [[ -n ${PYTHON:-} ]]; then
        echo "$PYTHON has no PyTorch that was built for CUDA and with the new C++ ABI" \
            "(2.7 or newer has it)" >&2
        exit 1
    fi
    python=$own
    if ! torch=$(torch_of "$python"); then
        install_missing python3-venv
        echo "installing PyTorch into build/pytorch (3 GB to fetch, 5 GB on disk) …"
        python3 -m venv build/pytorch
        build/pytorch/bin/pip install --quiet --disable-pip-version-check torch numpy
        torch=$(torch_of "$python") || {
            echo "the PyTorch that pip found for this machine was not built for CUDA" >&2
            exit 1
        }
    fi
fi
echo "libtorch: $torch"
build gpu dedloc -- "-DDEDLOC_TORCH_FROM=$torch" lenient

"$python" - <<'PY'
import torch
if torch.cuda.is_available():
    print(f"build/gpu/bin/dedloc is ready and computes on: {torch.cuda.get_device_name()}")
else:
    print("build/gpu/bin/dedloc is ready, but PyTorch finds no card that it can use, so it would")
    print(f"compute on the CPU. Look at nvidia-smi: this PyTorch is for CUDA {torch.version.cuda}.")
    print("With an older driver install an older one into a venv: PYTHON=VENV/bin/python3 ./gpu.sh")
    print("(https://pytorch.org/get-started/previous-versions)")
PY
