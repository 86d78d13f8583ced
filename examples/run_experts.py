"""Runs remote_experts as three machines would: two serve, one trains.

usage: run_experts.py PROGRAM
"""

import subprocess
import sys
import tempfile


def start(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def address_of(process):
    for line in process.stdout:
        if line.startswith("address: "):
            return line[9:].strip().replace("/ip4/0.0.0.0/", "/ip4/127.0.0.1/")
    raise AssertionError("it printed no address")


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        first = start(program, "serve", folder + "/a")
        servers = [first]
        try:
            address = address_of(first)
            servers.append(start(program, "serve", folder + "/b", address))
            address_of(servers[1])
            trainer = subprocess.run([program, "train", folder + "/c", address],
                                     stdout=subprocess.PIPE, text=True, timeout=200, check=False)
            print(trainer.stdout)
            assert trainer.returncode == 0, f"exit code {trainer.returncode}"
            for server in servers:
                server.terminate()
            updates = [int(s.communicate(timeout=60)[0].split("updates: ")[-1]) for s in servers]
            assert sum(updates) >= 300, f"the experts learnt {updates} times"
            print(f"experts were updated {updates} times")
        finally:
            for server in servers:
                if server.poll() is None:
                    server.kill()
                    server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
