"""test_dedloc.ErrorsTest for ctest: skipped (77) where Python has no PyTorch."""

import importlib.util
import sys
import unittest

if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("wants the Debian package python3-torch")
        sys.exit(77)
    unittest.main(module="test_dedloc", argv=[sys.argv[0], "-v", "ErrorsTest"])
