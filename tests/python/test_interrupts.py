"""Ctrl-C and SIGTERM, whatever is waited for; cells of a notebook that are run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from pathlib import Path

import dedloc
import torch

from test_dedloc import SECONDS, Folder, start

WITHIN = 0.3  # from Ctrl-C to KeyboardInterrupt, of a machine that has nothing else to do
SLACK = float(os.environ.get("DEDLOC_SLACK", "0.3"))  # for one that has


def script(text: str, *arguments: str) -> subprocess.Popen:
    head = """
        import os, signal, sys, threading, time
        import dedloc, torch
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        SGD = dict(kind="sgd", momentum=0.0)
        LOOPBACK = "127.0.0.1:0"
        def host(folder, batch=8, **more):
            run = dedloc.host(target_batch=batch, optimizer=SGD, schedule=0.01, directory=folder,
                              listen=LOOPBACK, **more)
            return run, dedloc.Optimizer(run, model)
        def batch(samples=8):
            model(torch.randn(samples, 4)).square().mean().backward()
        def waiting_for_another(folder):
            run, opt = host(folder, batch=1000)
            other = dedloc.join(run.join_string, directory=folder + "-b", listen=LOOPBACK)
            dedloc.Optimizer(other, torch.nn.Linear(4, 1))
            batch(); opt.step(samples=8)
            return run, opt, other
        def interrupted(call, after=0.5, number=signal.SIGINT):
            sent = []
            def send():
                time.sleep(after)
                sent.append(time.monotonic())
                os.kill(os.getpid(), number)
            threading.Thread(target=send, daemon=True).start()
            try:
                print("ended:", call())
            except KeyboardInterrupt:
                print("seconds", time.monotonic() - sent[0])
        model = torch.nn.Linear(4, 1)
    """
    return start(sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text), *arguments)


class InterruptsTest(Folder):
    def seconds(self, process: subprocess.Popen) -> float:
        output = self.ends(process)
        self.assertIn("seconds ", output)
        return float(output.split("seconds ")[1].split()[0])

    def test_joining_a_run_whose_host_is_stopped(self):
        stopped = script("""
            run, opt = host(sys.argv[1])
            print("join:", run.join_string, flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        """, f"{self.folder}/a")
        self.addCleanup(stopped.communicate)
        self.addCleanup(stopped.kill)
        string = stopped.stdout.readline().split()[1]
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
        joining = script("""
            run = dedloc.join(sys.argv[1], directory=sys.argv[2], listen=LOOPBACK)
            interrupted(lambda: dedloc.Optimizer(run, model))
        """, string, f"{self.folder}/b")
        self.assertLess(self.seconds(joining), WITHIN + SLACK)

    def test_leaving(self):
        leaves = """
            run, opt, other = waiting_for_another(sys.argv[1])
            interrupted(lambda: run.leave(30.0))
            other.close(0.0)
        """
        self.assertLess(self.seconds(script(leaves, f"{self.folder}/a")), WITHIN + SLACK)

    def test_closing_after_it_takes_no_longer_than_it_was_given(self):
        closes = """
            run, opt, other = waiting_for_another(sys.argv[1])
            interrupted(lambda: run.leave(3600.0))
            run.close(0.0)
            print("closed", flush=True)
            other.close(0.0)
        """
        self.assertIn("closed", self.ends(script(closes, f"{self.folder}/a")))

    def test_every_one_of_many_is_heard(self):
        """A handler that raises, wherever the signal comes."""
        many = """
            run, opt = host(sys.argv[1], batch=24)
            other = dedloc.join(run.join_string, directory=sys.argv[1] + "-b", listen=LOOPBACK)
            dedloc.Optimizer(other, torch.nn.Linear(4, 1))
            heard = 0
            for turn in range(8):
                threading.Timer(0.05 + turn * 0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    end = time.monotonic() + 5
                    while time.monotonic() < end:
                        batch(); opt.step(samples=8)
                except KeyboardInterrupt:
                    heard += 1
            print("heard", heard)
            other.close(0.0); run.close(0.0)
        """
        self.assertIn("heard 8", self.ends(script(many, f"{self.folder}/a")))

    def test_a_handler_may_leave_the_run(self):
        handles = """
            run, opt = host(sys.argv[1], batch=16)
            other = dedloc.join(run.join_string, directory=sys.argv[1] + "-b", listen=LOOPBACK)
            dedloc.Optimizer(other, torch.nn.Linear(4, 1))
            def leave(*_):
                run.close(0.1)
                sys.exit(7)
            signal.signal(signal.SIGTERM, leave)
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
            while True:
                batch(); opt.step(samples=8)
        """
        self.ends(script(handles, f"{self.folder}/a"), 7)

    def test_sigterm_leaves_in_order_with_code_0(self):
        host = script("""
            run, opt = host(sys.argv[1])
            print("join:", run.join_string, flush=True)
            while True:
                batch(); opt.step(samples=8)
                for event in run.events:
                    if event["kind"] == "peer_left": print("left", flush=True); sys.exit()
        """, f"{self.folder}/a")
        string = host.stdout.readline().split()[1]
        guest = script("""
            run = dedloc.join(sys.argv[1], directory=sys.argv[2], listen=LOOPBACK)
            opt = dedloc.Optimizer(run, model)
            print("joined", flush=True)
            while True:
                batch(); opt.step(samples=8)
        """, string, f"{self.folder}/b")
        guest.stdout.readline()
        time.sleep(0.5)
        guest.send_signal(signal.SIGTERM)
        self.ends(guest, 0)
        host.send_signal(signal.SIGTERM)
        self.ends(host, 0)

    def test_sigterm_is_the_systems_again_when_no_run_is_open(self):
        run = dedloc.host(target_batch=8, optimizer="sgd", schedule=0.1,
                          directory=f"{self.folder}/a", listen="127.0.0.1:0")
        dedloc.Optimizer(run, torch.nn.Linear(4, 1))
        self.assertTrue(callable(signal.getsignal(signal.SIGTERM)))
        run.close(0.0)
        self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_a_worker_that_was_forked_dies_of_sigterm(self):
        run = dedloc.host(target_batch=8, optimizer="sgd", schedule=0.1,
                          directory=f"{self.folder}/a", listen="127.0.0.1:0")
        self.addCleanup(run.close, 0.0)
        dedloc.Optimizer(run, torch.nn.Linear(4, 1))
        ready, told = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.write(told, b"1")  # a signal that comes earlier is lost in Python's fork
            time.sleep(SECONDS)
            os._exit(0)
        os.read(ready, 1)
        os.kill(worker, signal.SIGTERM)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]), -signal.SIGTERM)


class CellsTest(Folder):
    def cell(self):
        run = dedloc.host(target_batch=8, optimizer="sgd", schedule=0.1,
                          directory=f"{self.folder}/peer", listen="127.0.0.1:0")
        return run, dedloc.Optimizer(run, torch.nn.Linear(4, 1))

    def test_a_cell_that_is_run_again_says_that_the_run_is_open_here(self):
        first, _ = self.cell()
        with self.assertRaisesRegex(dedloc.AlreadyOpen, "this very process.*run.close"):
            self.cell()
        first.close(0.0)
        self.cell()[0].close(0.0)

    def test_runs_whose_variables_are_lost_can_be_closed(self):
        self.cell()
        with self.assertRaisesRegex(dedloc.BadInput, "close_all"):
            self.cell()
        dedloc.close_all(0.0)
        self.cell()[0].close(0.0)

    def test_other_settings_need_another_folder_and_the_error_says_how(self):
        first, _ = self.cell()
        first.close(0.0)
        other = dict(target_batch=9, optimizer="sgd", schedule=0.1, listen="127.0.0.1:0")
        with self.assertRaisesRegex(dedloc.BadInput, 'other settings.*directory="…"'):
            dedloc.Optimizer(dedloc.host(directory=f"{self.folder}/peer", **other),
                             torch.nn.Linear(4, 1))
        run = dedloc.host(directory=f"{self.folder}/other", **other)
        dedloc.Optimizer(run, torch.nn.Linear(4, 1))
        run.close(0.0)

    def test_a_folder_of_another_process_is_refused_and_the_error_says_what_to_do(self):
        first = script("""
            run, opt = host(sys.argv[1])
            print("up", flush=True)
            signal.pause()
        """, f"{self.folder}/peer")
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        first.stdout.readline()
        with self.assertRaisesRegex(dedloc.DifferentRun, 'another process.*directory="…"'):
            self.cell()

    def test_another_spelling_of_the_folder_is_the_same_folder(self):
        first, _ = self.cell()
        self.addCleanup(first.close, 0.0)
        run = dedloc.host(target_batch=8, optimizer="sgd", schedule=0.1,
                          directory=f"{self.folder}/x/../peer")
        os.makedirs(f"{self.folder}/x")
        with self.assertRaises(dedloc.AlreadyOpen):
            dedloc.Optimizer(run, torch.nn.Linear(4, 1))


if __name__ == "__main__":
    unittest.main()
