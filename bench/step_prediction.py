#!/usr/bin/env python3
"""Predicted training steps beside measured ones, on the devices that can be had on one machine:
kernels of other processors (DNNL_MAX_CPU_ISA, OPENBLAS_CORETYPE), one and two threads, and a quota
of a control group (root). Each device and each model is left out once, and predicted from the
others. Rates and steps are the least of short repeats, in turns, in processor time.

Usage: bench/step_prediction.py [--quick] [--json FILE] [--keep DIRECTORY]
  after bench/run.sh has built the programs; RUBATO: build/bench/cli/rubato by default
  --keep: the device files stay there, as deploy/measured has them
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile

import tools

RUBATO = os.environ.get("RUBATO", "build/bench/cli/rubato")
# Name, instructions of oneDNN, kernels of OpenBLAS, numbers of threads, part of a core.
DEVICES = [
    ("avx512", None, None, "1,2", None),
    ("quota", None, None, "1", 0.2),
    ("avx2", "AVX2", "HASWELL", "1", None),
    ("sse41", "SSE41", "NEHALEM", "1", None),
    ("quota-avx2", "AVX2", "HASWELL", "1", 0.3),
    ("avx", "AVX", "SANDYBRIDGE", "1", None),
    ("mixed", "AVX2", "SKYLAKEX", "1", None),
]
QUICK = ("avx512", "avx2", "sse41", "quota")
PERIOD_US = 10000


@contextlib.contextmanager
def quota_group(part):
    """A control group that may use this part of a core: its path; None where there can be none."""
    for root, files in (("/sys/fs/cgroup/cpu", ("cpu.cfs_period_us", "cpu.cfs_quota_us")),
                        ("/sys/fs/cgroup", ("cpu.max",))):
        group = os.path.join(root, f"rubato-bench-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            quota = int(part * PERIOD_US)
            values = [PERIOD_US, quota] if len(files) == 2 else [f"{quota} {PERIOD_US}"]
            for name, value in zip(files, values):
                with open(os.path.join(group, name), "w", encoding="ascii") as file:
                    file.write(str(value))
            yield group
            return
        except OSError:
            continue
        finally:
            os.rmdir(group)
    yield None


def calibrate(device, batches, place):
    """The path of its device file; None where it cannot be had."""
    name, isa, core, threads, part = device
    environment = dict(os.environ)
    if isa:
        environment["DNNL_MAX_CPU_ISA"] = isa
    if core:
        environment["OPENBLAS_CORETYPE"] = core
    path = os.path.join(place, f"{name}.toml")
    command = [RUBATO, "calibrate", "--name", name, "--batch", batches, "--threads", threads,
               "--save", path]
    with quota_group(part) if part else contextlib.nullcontext() as group:
        if part and not group:
            print(f"{name}: left out, no control group can be made here")
            return None

        def join():
            if group:
                with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(str(os.getpid()))

        subprocess.run(command, env=environment, check=True, preexec_fn=join,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def row(name, value, bar=None):
    print(f"{name:58} {value:10.3g} %{'   bar ' + bar if bar else ''}", flush=True)
    return tools.value_row(name, value, "%", bar)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--keep", metavar="DIRECTORY")
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    devices = [d for d in DEVICES if not options.quick or d[0] in QUICK]
    with tempfile.TemporaryDirectory() as scratch:
        place = options.keep or scratch
        os.makedirs(place, exist_ok=True)
        paths = [calibrate(d, "32" if options.quick else "8,32", place) for d in devices]
        judged = json.loads(subprocess.run(
            [RUBATO, "steps", "--errors", "--json", "--on", ",".join(p for p in paths if p)],
            check=True, stdout=subprocess.PIPE).stdout)

    steps = judged["rates"]["steps"]
    print(f"{'device':12} {'model':6} {'batch':>5} {'threads':>7} {'measured':>12}"
          f" {'predicted':>12} {'error':>8}")
    for step in steps:
        off = 100 * (step["predicted_s"] / step["measured_s"] - 1)
        print(f"{step['device']:12} {step['model']:6} {step['batch']:5} {step['threads']:7}"
              f" {step['measured_s'] * 1e6:9.1f} us {step['predicted_s'] * 1e6:9.1f} us"
              f" {off:+7.1f}%")
    print()
    rows = [row("median error of a predicted step", 100 * judged["rates"]["error_median"],
                "<= 15 %"),
            row("9 of 10 errors are below", 100 * judged["rates"]["error_nine_of_ten"])]
    for key in ("device", "model"):
        for value in sorted({step[key] for step in steps}):
            errors = [step["error"] for step in steps if step[key] == value]
            rows.append(row(f"median error, {key} {value} left out",
                            100 * statistics.median(errors)))
    rows.append(row("by two published figures alone, median error",
                    100 * judged["peak"]["error_median"]))
    rows.append(row("from a step on another device, median error",
                    100 * judged["ratio"]["error_median"]))
    tools.write_rows(options.json, rows)


if __name__ == "__main__":
    main()
