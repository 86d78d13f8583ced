"""Fleets: what `dedloc fleet` writes is run here, with stand-ins for srun, ssh and kubectl; notices
of a fake metadata service; and a fleet whose machines are taken away and filled up again.
"""

from __future__ import annotations

import http.server
import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import harness
from harness import DEDLOC, Peer, ProcessTest, events_of, free_port, run_text

TARGET = 16  # samples of a step

# sbatch stops reading at the first command; these are the options that ours use.
SBATCH_OPTIONS = {"job-name", "output", "ntasks", "cpus-per-task", "mem", "open-mode", "requeue",
                  "array", "time", "signal", "partition", "account", "gres"}
STAND_INS = {
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
    "scontrol": 'echo "$@" >>"$STAND_IN/scontrol"\n',
    "ssh": 'while [ "$1" = -o ]; do shift 2; done\nmkdir -p "$STAND_IN/$1"\n'
           'cd "$STAND_IN/$1"\nexec sh -c "$2"\n',
    "kubectl": 'if [ "$1" = --namespace ]; then shift 2; fi\necho "$@" >>"$STAND_IN/kubectl"\n'
               'if [ "$1" = exec ]; then cat "$STAND_IN${5#/var/lib/dedloc}"; fi\n'
               'if [ "$1 $3" = "apply -" ]; then cat >/dev/null; fi\n',
}


def steps_of(folder: Path) -> int:
    return sum(event["kind"] == "step" for event in events_of(folder))


def has_left(folder: Path) -> bool:
    """The peer said that it leaves, and made no step since."""
    kinds = [event["kind"] for event in events_of(folder)]
    return "left" in kinds and "step" not in kinds[kinds.index("left"):]


class Fleets(ProcessTest):
    def setUp(self) -> None:
        super().setUp()
        self.started: list[subprocess.Popen] = []
        self.addCleanup(self.end_started)
        folder = self.folder / "bin"
        folder.mkdir()
        for name, text in STAND_INS.items():
            (folder / name).write_text("#!/bin/sh\nset -eu\n" + text)
            (folder / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                    "STAND_IN": str(self.folder), "FLEET_WAIT_S": "0.2", "SLURM_ARRAY_JOB_ID": "7"}

    def end_started(self) -> None:
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(30)
        for path in self.folder.rglob("peer.pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError):
                pass

    def write_fleet(self, kind: str, *more: str) -> Path:
        run = self.write("run.toml", run_text(gradient_ms=20, target=TARGET))
        done = self.dedloc("fleet", kind, run, "--to", str(self.folder / "fleet"), "--program",
                           DEDLOC, "--port", str(free_port()), "--threads", "1", *more)
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        return self.folder / "fleet"

    def start(self, *words: str, cwd: Path, **env: str) -> subprocess.Popen:
        with open(self.folder / "said", "ab") as said:
            process = subprocess.Popen(words, cwd=cwd, env={**self.env, **env}, stdout=said,
                                       stderr=said, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
        self.started.append(process)
        return process

    def said(self) -> str:
        return (self.folder / "said").read_text(errors="replace")

    def until_runs(self, what: str, condition, *processes: subprocess.Popen) -> None:
        def holds() -> bool:
            for process in processes:
                self.assertIsNone(process.poll(), self.said())
            return condition()
        self.until(what, holds)

    def check_script(self, path: Path) -> str:
        text = path.read_text()
        shell = text.split("\n", 1)[0].split("/")[-1].split()[-1]
        done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return text

    def check_batch_script(self, path: Path) -> None:
        lines = self.check_script(path).splitlines()
        directives = [line for line in lines if line.startswith("#SBATCH ")]
        first_command = next(number for number, line in enumerate(lines)
                             if line and not line.startswith("#"))
        for line in directives:
            option = line.removeprefix("#SBATCH --").split("=")[0]
            self.assertIn(option, SBATCH_OPTIONS)
            self.assertNotIn(" ", line.removeprefix("#SBATCH "))
            self.assertLess(lines.index(line), first_command)
        self.assertGreater(len(directives), 5)

    def test_an_array_of_slurm_leaves_when_it_is_told_and_queues_again(self) -> None:
        fleet = self.write_fleet("slurm", "--peers", "2")
        for name in ("host.sbatch", "peers.sbatch"):
            self.check_batch_script(fleet / name)
        self.check_script(fleet / "start.sh")
        (fleet / "state").mkdir()
        host = self.start("bash", "host.sbatch", cwd=fleet)
        self.until_runs("there is a join string",
                        (fleet / "state/host/join.txt").exists, host)

        def peer_joins() -> tuple[subprocess.Popen, int]:
            before = steps_of(fleet / "state/peer-1")
            peer = self.start("bash", "peers.sbatch", cwd=fleet, SLURM_ARRAY_TASK_ID="1")
            self.until_runs("the peer trains",
                            lambda: steps_of(fleet / "state/peer-1") > before + 2, host, peer)
            children = Path(f"/proc/{peer.pid}/task/{peer.pid}/children").read_text().split()
            return peer, int(children[0])

        keys = []
        for times in (1, 2):
            peer, step = peer_joins()
            keys.append((fleet / "state/peer-1/identity.key").read_bytes())
            os.kill(step, signal.SIGTERM)  # as Slurm does it: to the step, not to the script
            self.assertEqual(peer.wait(30), 0, self.said())
            queued = (self.folder / "scontrol").read_text().splitlines()
            self.assertEqual(queued, ["requeue 7_1"] * times)
        self.assertEqual(keys[0], keys[1])
        host.send_signal(signal.SIGTERM)
        self.assertEqual(host.wait(30), 0, self.said())
        self.assertTrue(list((fleet / "state/published").iterdir()))

        # Where it starts again it goes on.
        step = max(event["step"] for event in events_of(fleet / "state/host"))
        again = self.start("bash", "host.sbatch", cwd=fleet)
        self.until_runs("the host goes on", lambda: max(
            event["step"] for event in events_of(fleet / "state/host")) > step + 2, again)

    def test_machines_by_ssh_are_started_filled_up_and_stopped(self) -> None:
        fleet = self.write_fleet("ssh", "--machines", "one,two,three", "--folder", "ours")
        for name in ("machine.sh", "fleet.sh"):
            self.check_script(fleet / name)
        states = {name: self.folder / name / "ours/state" for name in ("one", "two", "three")}

        def fleet_sh(action: str) -> str:
            done = subprocess.run(["./fleet.sh", action], cwd=fleet, env=self.env, text=True,
                                  capture_output=True, timeout=50, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        def all_train(more: int) -> None:
            before = {name: steps_of(state) for name, state in states.items()}
            self.until("all train", lambda: all(
                steps_of(state) >= before[name] + more for name, state in states.items()))

        fleet_sh("start")
        all_train(2)
        pids = {name: (self.folder / name / "ours/peer.pid").read_text() for name in states}
        os.kill(int(pids["two"]), signal.SIGKILL)
        self.until("it is seen", lambda: "two: does not run" in fleet_sh("status"))
        fleet_sh("start")
        all_train(2)
        for name in ("one", "three"):
            self.assertEqual((self.folder / name / "ours/peer.pid").read_text(), pids[name])
        fleet_sh("stop")
        self.assertEqual(fleet_sh("status").count("does not run"), 3)
        for state in states.values():
            self.assertTrue(has_left(state))

    def test_manifests_of_kubernetes_hold_peers_that_train(self) -> None:
        try:
            import yaml
        except ImportError:
            self.skipTest("wants the Debian package python3-yaml")
        fleet = self.write_fleet("kubernetes", "--peers", "3", "--spot", "eks", "--gpus", "1",
                                 "--preemption-notice", "aws", "--namespace", "ours")
        self.check_script(fleet / "start.sh")
        objects = {(one["kind"], one["metadata"]["name"]): one
                   for name in ("host.yaml", "peers.yaml")
                   for one in yaml.safe_load_all((fleet / name).read_text())}
        self.assertEqual(set(objects), {
            ("ConfigMap", "process-test-run"), ("Service", "process-test-host"),
            ("StatefulSet", "process-test-host"), ("Service", "process-test-peer"),
            ("StatefulSet", "process-test-peer")})
        run_file = objects["ConfigMap", "process-test-run"]["data"]["run.toml"]
        self.assertEqual(run_file, (self.folder / "run.toml").read_text())
        peers = objects["StatefulSet", "process-test-peer"]["spec"]
        self.assertEqual(peers["replicas"], 3)
        pod = peers["template"]["spec"]
        self.assertEqual(pod["terminationGracePeriodSeconds"], 60)
        self.assertEqual(pod["nodeSelector"], {"eks.amazonaws.com/capacityType": "SPOT"})

        # Both folders that a cluster gives to a pod are here.
        given = self.folder / "given"
        given.mkdir()
        (given / "run.toml").write_text(run_file)

        def run_pod(kind: str, name: str) -> subprocess.Popen:
            container = objects["StatefulSet", f"process-test-{kind}"]["spec"]["template"]["spec"][
                "containers"][0]
            script = container["args"][0]
            for there, here in (("/var/lib/dedloc", str(self.folder)),
                                ("/etc/dedloc", str(given)), ("process-test-host:", "127.0.0.1:"),
                                ("--preemption-notice aws", "")):
                script = script.replace(there, here)
            return self.start(*container["command"], script, cwd=self.folder, POD=name)

        host = run_pod("host", "process-test-host-0")
        done = subprocess.run(["./start.sh"], cwd=fleet, env=self.env, text=True,
                              capture_output=True, timeout=50, check=False)
        asked = (self.folder / "kubectl").read_text()
        self.assertEqual(done.returncode, 0, done.stderr + asked)
        self.assertIn("create secret generic process-test-join --from-file=join.txt", asked)
        (given / "join.txt").write_text((fleet / "join.txt").read_text())
        peer = run_pod("peer", "process-test-peer-0")
        self.until_runs("it trains", lambda: steps_of(self.folder / "peer") > 2, host, peer)
        peer.send_signal(signal.SIGTERM)  # to process 1 of the pod
        self.assertEqual(peer.wait(30), 0, self.said())
        self.assertTrue(has_left(self.folder / "peer"))

    def test_a_fleet_that_means_nothing_is_refused(self) -> None:
        run = self.write("run.toml", run_text())
        fleet = self.write("fleet.toml", "peers = 4\npartitoin = \"spot\"\n")
        for words, parts in (
                (["slurm", run, "--fleet", fleet], ["fleet.toml:2:1", "did you mean 'partition'"]),
                (["slurm", "nowhere.toml"], ["nowhere.toml", "neither a run file"]),
                (["ssh", run], ["--machines"]),
                (["slurm", run, "--folder", "a b"], ["'folder'"]),
                (["slurm", run, "--preemption-notice", "oracle"], ["aws, gcp, azure"])):
            done = self.dedloc("fleet", *words, "--to", str(self.folder / "no"))
            self.assertEqual(done.returncode, harness.BAD_INPUT, done.stdout)
            self.expect_sentence(done.stderr, *parts)
        self.assertFalse((self.folder / "no").exists())
        made = self.write_fleet("slurm")
        again = self.dedloc("fleet", "slurm", run, "--to", str(made))
        self.assertEqual(again.returncode, harness.BAD_INPUT)
        self.expect_sentence(again.stderr, "--force")


class Metadata(http.server.BaseHTTPRequestHandler):
    """As on EC2: a token for PUT, then 404 until the machine is taken."""

    taken = False

    def do_PUT(self) -> None:
        self.answer(200 if "X-aws-ec2-metadata-token-ttl-seconds" in self.headers else 400, "word")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "word":
            self.answer(401, "")
        elif self.path == "/latest/meta-data/spot/instance-action" and Metadata.taken:
            self.answer(200, '{"action": "terminate", "time": "2026-11-28T08:22:00Z"}')
        else:
            self.answer(404, "")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


class Notices(ProcessTest):
    def test_a_peer_leaves_when_the_cloud_takes_its_machine(self) -> None:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        host = self.running_host(self.write("run.toml", run_text(gradient_ms=20)))
        address = f"aws=http://127.0.0.1:{server.server_address[1]}"
        peer = self.join(host.join_string(), "peer", more=("--preemption-notice", address))
        self.until_shared_steps(5, host, peer)
        Metadata.taken = True
        self.assertEqual(peer.end(), harness.OK, peer.errors())
        self.expect_sentence(peer.errors(), "AWS takes this machine: terminate")
        self.assertTrue(peer.last_words()["preempted"])
        self.assertTrue(peer.last_words()["left"])
        self.assertEqual(peer.events("samples_dropped"), [])
        self.until("the host sees it leave", lambda: host.events("peer_left"))
        self.assertEqual(host.events("peer_lost"), [])

    def test_a_metadata_service_that_is_not_there_is_said_once(self) -> None:
        run = self.write("run.toml", run_text(gradient_ms=20))
        host = self.running_host(run, more=("--preemption-notice",
                                            f"gcp=http://127.0.0.1:{free_port()}"))
        self.until("it is said", lambda: self.alive(host) and "does not answer" in host.errors())
        step = host.step()
        self.until_step(step + 3, host)
        host.signal(signal.SIGINT)
        self.assertEqual(host.end(), harness.OK)
        self.expect_sentence(host.errors(), "does not answer", "only a signal")
        self.assertFalse(host.last_words()["preempted"])


class PreemptedFleet(ProcessTest):
    """The host stays; each of the others may be taken away, half of them with a notice. Whoever is
    gone comes back with the identity that lay on its volume. DEDLOC_FLEET=30: so many times, of a
    fleet of eight."""

    full = int(os.environ.get("DEDLOC_FLEET", "0"))
    seconds_max = 280 if full else 55

    def machine(self, number: int) -> Peer:
        notice = self.folder / f"taken-{number}"
        notice.unlink(missing_ok=True)
        return self.join(self.hosting.join_string(), f"machine-{number}",
                         more=("--preemption-notice", f"file={notice}"))

    def all_take_part(self, machines: list[Peer]) -> None:
        everybody = [self.hosting, *machines]

        def seen() -> bool:
            for peer in everybody:
                self.alive(peer)
            steps = self.hosting.events("step")[self.steps_before:]
            return any(event["fields"]["contributors"] == len(everybody) for event in steps)
        self.steps_before = len(self.hosting.events("step"))
        self.until("all take part", seen)

    def take(self, machine: Peer, number: int, way: str) -> None:
        if way == "kill":
            machine.signal(signal.SIGKILL)
            machine.end()
            return
        if way == "notice":
            (self.folder / f"taken-{number}").touch()
        else:
            machine.signal(signal.SIGTERM)
        self.assertEqual(machine.end(), harness.OK, machine.errors())
        self.assertTrue(machine.last_words()["left"])
        self.assertEqual(machine.last_words()["samples_dropped"], 0)

    def test_a_fleet_of_preempted_machines_keeps_one_state_and_counts_nothing_twice(self) -> None:
        count, preemptions = (8, self.full) if self.full else (4, 6)
        chance = random.Random(59)
        # A machine that others use as well stands still for seconds; that is no lost majority.
        text = run_text(gradient_ms=20, target=TARGET).replace('"3s"', '"30s"')
        run = self.write("run.toml", text)
        self.hosting = self.running_host(run)
        machines = [self.machine(number) for number in range(count - 1)]
        kills = dict.fromkeys(range(count - 1), 0)
        for preemption in range(preemptions):
            self.all_take_part(machines)
            number = chance.randrange(count - 1)
            way = ("kill", "term", "kill", "notice")[preemption % 4]
            kills[number] += way == "kill"
            self.take(machines[number], number, way)
            machines[number] = self.machine(number)
        self.all_take_part(machines)
        self.end_with_one_state(self.hosting, *machines)
        self.judge(kills)

    def judge(self, kills: dict[int, int]) -> None:
        killed = [word for number, times in kills.items() if times
                  for word in ("--killed", self.id_of(f"machine-{number}"))]
        folders = [str(self.folder / "host"), *(str(self.folder / f"machine-{number}")
                                                for number in kills)]
        done = self.dedloc("audit", *folders, *killed, "--json")
        self.assertEqual(done.returncode, harness.OK, done.stderr)
        audit = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(audit["samples_twice"], 0)
        self.assertEqual(audit["branches"], 0)
        accounts = {self.id_of(f"machine-{number}"): times for number, times in kills.items()}
        accounts[self.id_of("host")] = 0
        for peer, times in accounts.items():
            account = audit["peers"][peer]
            lost = account["left_out"] + (0 if times else account["skipped"])
            self.assertLessEqual(lost, times * TARGET, account)
        left_out = sum(audit["peers"][peer]["left_out"] for peer in accounts)
        print(f"{sum(kills.values())} kills, {audit['steps']} steps, {audit['aborts']} aborts, "
              f"{audit['samples_committed']:.0f} samples, {left_out:.1f} lost by who was killed")

    def id_of(self, name: str) -> str:
        for event in events_of(self.folder / name):
            if event["kind"] in ("joined", "run_started") and event["fields"].get("id"):
                return event["fields"]["id"]
        raise AssertionError(f"{name} never took part")


if __name__ == "__main__":
    harness.main()
