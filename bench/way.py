#!/usr/bin/python3
"""Shows the files and functions of ours that a commit passes, and an evaluation: from calls that
callgrind sees in one run on virtual time. Needs valgrind (Debian: valgrind). What the compiler has
inlined counts by its file alone. The command, which began the run, does not count.
Usage: bench/way.py [BUILD]   BUILD: build/dev, or another that has cli/rubato with symbols"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = """
[[workers]]
name = "w"
count = 2
step_seconds = 1
[model]
kind = "mlp"
hidden = [8]
[dataset]
kind = "blobs"
samples = 200
features = 4
classes = 3
[training]
batch = 4
device = "reference"
[evaluation]
interval_seconds = 2
[stop]
max_steps = 12
"""
# From the worker's device to its server and back; from the evaluator's pull to the scheduler.
WAYS = {
    "commit": ("emulation::ReplicaTraining::take_update", "worker::WorkerCore::on_commit",
               "server::ServerCore::on_commit", "worker::WorkerCore::on_server",
               "emulation::ReplicaTraining::load", "worker::WorkerCore::on_loaded",
               "scheduler::Scheduler::on_progress"),
    "evaluation": ("worker::EvaluatorCore::on_wakeup", "server::ServerCore::on_pull",
                   "worker::EvaluatorCore::on_parameters",
                   "emulation::ReplicaTraining::begin_evaluation", "train::evaluate",
                   "worker::EvaluatorCore::on_evaluated", "scheduler::Scheduler::on_evaluation"),
}


def called(program, folder, functions):
    """What runs within one of `functions`."""
    out = f"{folder}/calls"
    subprocess.run(
        ["valgrind", "-q", "--tool=callgrind", "--compress-strings=no",
         f"--callgrind-out-file={out}", *(f"--toggle-collect=rubato::{f}(*" for f in functions),
         program, "compare", "way.toml", "--sync", "asp", "--threads", "1", "--quiet"],
        cwd=folder, check=True, capture_output=True)
    text = pathlib.Path(out).read_text(encoding="utf-8")
    files = {pathlib.Path(f).resolve() for f in re.findall(r"^(?:fl|fi|fe)=(/\S+)", text, re.M)}
    ours = sorted(str(f.relative_to(ROOT)) for f in files if f.is_relative_to(ROOT))
    return [f for f in ours if not f.startswith("cli/")], set(re.findall(r"^fn=(rubato::\S+)", text, re.M))


def main():
    program = (ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/dev") / "cli/rubato").resolve()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "way.toml").write_text(CLUSTER, encoding="utf-8")
        for way, functions in WAYS.items():
            files, calls = called(program, folder, functions)
            print(f"{way}: {len(files)} files, {len(calls)} functions")
            rooms = {}
            for file in files:
                rooms.setdefault(file.split("/")[0], []).append(file.split("/", 1)[1])
            for room, names in rooms.items():
                print(f"  {room}: {', '.join(names)}")


main()
