"""torchrun, mended for Debian's torch 1.13: Python 3.11 counts no zero among the members of an
enumeration, and torchrun's word for "redirect nothing" is zero."""

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import Std

Std.from_str = classmethod(lambda cls, word: cls(int(word)))

if __name__ == "__main__":
    run.main()
