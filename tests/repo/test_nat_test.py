"""A test of tests/netns has its limit of time from the beginning on, and leaves none behind."""

import signal
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "netns"))
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


if __name__ == "__main__":
    unittest.main()
