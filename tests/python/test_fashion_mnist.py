"""The example of Fashion-MNIST: two peers in Python and one in C++, one state at every step.

DEDLOC_FASHION_MNIST   example_fashion_mnist of a build (empty: skipped)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from test_dedloc import EXAMPLES, cpp_hashes, join_string, start, word_after

EXAMPLE = os.environ.get("DEDLOC_FASHION_MNIST", "")
DATA = Path("/usr/share/datasets/fashion-mnist")
SECONDS = 240
ACCURACY_MIN = 0.84


@unittest.skipUnless(EXAMPLE and DATA.exists(), "no C++ example was built, or no images are here")
class FashionMnistTest(unittest.TestCase):
    def test_two_python_peers_and_a_cpp_peer_are_one_at_every_step_and_learn(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = [sys.executable, str(EXAMPLES / "python/fashion_mnist.py")]
            waiting = {**os.environ, "DEDLOC_PEERS": "3"}
            host = start(*peer, str(EXAMPLES / "fashion_mnist.toml"), f"{folder}/a", env=waiting)
            join = join_string(host)
            guest = start(*peer, join, f"{folder}/b", env=waiting)
            join_string(guest)
            cpp = start(EXAMPLE, join, f"{folder}/c")
            outputs = []
            for process in (host, guest, cpp):
                output, errors = process.communicate(timeout=SECONDS)
                self.assertEqual(process.returncode, 0, errors)
                outputs.append(output)
            hashes = [json.loads(word_after(output, "\nhashes ")) for output in outputs[:2]]
            hashes.append(cpp_hashes(f"{folder}/c"))
        steps = max(hashes, key=len).keys()
        self.assertGreaterEqual(len(steps), 100)
        for step in steps:
            self.assertEqual(len({of[step] for of in hashes if step in of}), 1, f"step {step}")
        shared = [step for step in steps if all(step in of for of in hashes)]
        self.assertGreaterEqual(len(shared), 0.9 * len(steps), "a peer missed steps")
        self.assertEqual(len({word_after(output, "\nstate ") for output in outputs}), 1)
        for output in outputs:
            self.assertIn("\nstep ", output, "a peer took part in no step")
            self.assertGreaterEqual(float(word_after(output, "\naccuracy ")), ACCURACY_MIN)


if __name__ == "__main__":
    unittest.main()
