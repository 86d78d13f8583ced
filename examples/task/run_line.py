"""Trains the example's task with its own program, from the run file that `init` writes.

usage: run_line.py PROGRAM
"""

import json
import subprocess
import sys
import tempfile


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        run_file = folder + "/line.toml"
        subprocess.run([program, "init", "line", "-o", run_file], check=True)
        text = open(run_file, encoding="utf-8").read()
        assert "[line]" in text and "# of the line to be found" in text, text
        wrong = folder + "/wrong.toml"
        with open(wrong, "w", encoding="utf-8") as file:
            file.write(text.replace("slope = 2.0", "slope = 20.0"))
        refused = subprocess.run([program, "host", wrong], capture_output=True, text=True)
        assert refused.returncode == 2, refused
        assert "'line.slope' must be from -10 to 10" in refused.stderr, refused.stderr
        command = [program, "host", run_file, "--dir", folder + "/peer", "--listen",
                   "127.0.0.1:0", "--json"]
        trained = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert trained.returncode == 0, trained.stdout + trained.stderr
        end = json.loads(trained.stdout.strip().splitlines()[-1])
        found = [json.loads(line) for line in open(folder + "/peer/events.jsonl", encoding="utf-8")]
        accuracies = [e["fields"]["accuracy"] for e in found if e["kind"] == "evaluation"]
        assert accuracies and accuracies[-1] == 1, (end, accuracies)
        print(f"the line was found: {end}")


if __name__ == "__main__":
    main(*sys.argv[1:])
