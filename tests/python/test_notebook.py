"""The notebook's cells, one after the other, as Jupyter would run them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_dedloc import EXAMPLES
from test_fashion_mnist import DATA

NOTEBOOK = EXAMPLES / "python/fashion_mnist.ipynb"
SECONDS = 240
ACCURACY_MIN = 0.65  # after 12,000 samples


def code_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@unittest.skipUnless(DATA.exists(), "no images are here")
class NotebookTest(unittest.TestCase):
    def test_all_cells_run_and_the_network_learns(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "cells.py"
            # Jupyter starts in the notebook's folder, and looks there for modules.
            script.write_text(f"import sys\nsys.path.insert(0, {str(NOTEBOOK.parent)!r})\n"
                              f"{code_of(NOTEBOOK)}\nassert result > {ACCURACY_MIN}, result\n",
                              encoding="utf-8")
            done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                                  timeout=SECONDS, cwd=NOTEBOOK.parent)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("others join with: dedloc1", done.stdout)


if __name__ == "__main__":
    unittest.main()
