#!/usr/bin/env python3
"""One table of all benchmark rows, and one JSON with the machine.

Usage: bench/table.py ROWS_DIRECTORY RESULTS.json
Reads ROWS_DIRECTORY/*.json, each an array of rows
  {"name", "value", "unit", "peer", "peer_value", "ratio", "bar"}
A bar such as ">= 0.95" or "< 2 %" is about the ratio where there is a peer, about the value where
there is none. A row that could not be measured has the value null and says why in "absent".
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

BAR = re.compile(r"(<=|>=|<|>)\s*([0-9.]+)\s*(%|x)?")


def reached(row):
    """True, False, or None where there is nothing to compare."""
    if not row["bar"]:
        return None
    measured = row["ratio"] if row["peer"] else row["value"]
    if measured is None:
        return None
    match = BAR.fullmatch(row["bar"].strip())
    if not match:
        sys.exit(f'table: row "{row["name"]}": cannot read the bar "{row["bar"]}"; '
                 'write it as ">= 0.95"')
    sign, limit = match.group(1), float(match.group(2))
    if match.group(3) == "%" and row["unit"] != "%":
        limit /= 100
    return {"<=": measured <= limit, ">=": measured >= limit,
            "<": measured < limit, ">": measured > limit}[sign]


def number(value):
    if value is None:
        return "-"
    if value == 0 or 1 <= abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cells(bench, row):
    verdict = {True: "yes", False: "NO", None: "-"}[reached(row)]
    peer = "-"
    if row["peer"]:
        absent = row["peer_value"] is None
        peer = row["peer"] + (" (absent)" if absent else " " + number(row["peer_value"]))
    ratio = "-" if row["ratio"] is None else f'{row["ratio"]:.3f}'
    ours = f'{number(row["value"])} {row["unit"]}'
    if row["value"] is None:
        ours = f'(absent: {row["absent"]})'
    return [f'{bench}: {row["name"]}', ours, peer, ratio, row["bar"] or "-", verdict]


def print_table(lines):
    head = ["what", "ours", "peer", "ratio", "bar", "reached"]
    widths = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]
    for line in [head, ["-" * width for width in widths]] + lines:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |")


def first_line(path, prefix):
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith(prefix):
                return line.split(":", 1)[1].strip()
    return "unknown"


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def machine():
    return {"cpu": first_line("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "kernel": platform.release(), "memory": first_line("/proc/meminfo", "MemTotal"),
            "commit": output_of("git", "describe", "--always", "--dirty", "--abbrev=10")}


def main():
    directory, target = sys.argv[1:3]
    rows = []
    for path in sorted(pathlib.Path(directory).glob("*.json"), key=os.path.getmtime):
        rows += [(path.stem, row) for row in json.loads(path.read_text(encoding="utf-8"))]
    facts = machine()
    print(f'{facts["cpu"]}, {facts["cores"]} cores, kernel {facts["kernel"]}, '
          f'commit {facts["commit"]}\n')
    print_table([cells(bench, row) for bench, row in rows])
    missed = [row["name"] for _, row in rows if reached(row) is False]
    judged = sum(reached(row) is not None for _, row in rows)
    print(f"\n{judged - len(missed)} of {judged} bars reached, {len(rows)} rows, in {target}")
    results = [dict(row, bench=bench, reached=reached(row)) for bench, row in rows]
    with open(target, "w", encoding="utf-8") as file:
        json.dump({"machine": facts, "rows": results}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
