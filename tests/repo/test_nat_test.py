"""A test of tests/netns has its limit of time from the beginning on, and leaves none behind; what
tests read of a program that still writes is whole lines."""

import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "netns"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))
import harness  # noqa: E402
import nat_test  # noqa: E402


class Limit(unittest.TestCase):
    def setUp(self) -> None:
        before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.alarm, 0)

    def result_of(self, why_not: str, network: mock.Mock) -> unittest.TestResult:
        class Nothing(nat_test.NatTest):
            def runTest(self) -> None:
                pass

        with mock.patch.object(nat_test.network, "why_not", return_value=why_not), \
                mock.patch.object(nat_test.network, "Network", return_value=network):
            return Nothing().run()

    def test_a_network_that_hangs_ends(self) -> None:
        network = mock.Mock()
        # As if the time were up meanwhile.
        network.__enter__ = lambda _: signal.raise_signal(signal.SIGALRM)
        result = self.result_of("", network)
        self.assertIn("took more than", result.failures[0][1])
        network.close.assert_called()
        self.assertEqual(signal.alarm(0), 0)

    def test_a_test_that_is_skipped_leaves_no_alarm(self) -> None:
        self.assertEqual(len(self.result_of("no root", mock.Mock()).skipped), 1)
        self.assertEqual(signal.alarm(0), 0)


class WholeLines(unittest.TestCase):
    def test_a_line_that_is_half_written_is_not_read(self) -> None:
        for module in (nat_test, harness):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "out"
                self.assertEqual(module.whole_lines(path), [])
                path.write_text("dedloc join dedloc1ab")
                self.assertEqual(module.whole_lines(path), [])
                path.write_text("dedloc join dedloc1abcd\nhalf of")
                self.assertEqual(module.whole_lines(path), ["dedloc join dedloc1abcd"])

    def test_no_test_splits_what_a_running_program_has_written(self) -> None:
        tests = Path(__file__).resolve().parents[1]
        hasty = re.compile(r"\.(?:out|err)\.read_text\([^)]*\)\.(?:strip\(\)\.)?splitlines"
                           r"|\.(?:said|errors)\(\)\.splitlines")
        for path in [*tests.glob("netns/*.py"), *tests.glob("process/*.py")]:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "self.out.read_text" not in line:  # last_words(), after its end
                    self.assertIsNone(hasty.search(line), f"{path}:{number}")


if __name__ == "__main__":
    unittest.main()
