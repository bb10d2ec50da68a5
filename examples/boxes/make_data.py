#!/usr/bin/env python3
"""Four boxes, each with the machines of its own hall, and a file that none of them has.

Writes hall-1.csv ... hall-4.csv, 20,000 rows in all, and new.csv, 40,000 rows, into the directory
of the first argument, and boxes.toml beside them. The same rows every time. Columns: serial (to be ignored), machine and shift
(texts), temperature, vibration and load (numbers), state (the label). Some values are missing. The
halls differ in size and in machines, and hall-4 has never seen a broken machine.
"""
import math
import os
import random
import shutil
import sys

HALLS = {  # rows, and which machines stand there
    "hall-1": (9000, ["lathe", "mill"]),
    "hall-2": (6000, ["mill", "press"]),
    "hall-3": (3500, ["press", "saw", "lathe"]),
    "hall-4": (1500, ["saw"]),
}
WARM = {"lathe": 62, "mill": 55, "press": 71, "saw": 48}  # degrees where all is well
SHIFTS = ["early", "late", "night"]


def row(random_numbers, machines):
    """One machine at one moment: its fields, and its state."""
    machine = random_numbers.choice(machines)
    shift = random_numbers.choice(SHIFTS)
    load = random_numbers.uniform(0, 100)
    heat = random_numbers.gauss(0, 6)
    temperature = WARM[machine] + 0.12 * load + heat
    vibration = math.exp(random_numbers.gauss(0.4, 0.5)) * (1.6 if machine == "press" else 1)
    wear = heat / 6 + 1.3 * math.log(vibration) + (0.5 if shift == "night" else 0)
    wear += 0.9 * math.sin(load / 16) + random_numbers.gauss(0, 0.35)
    state = "good" if wear < 0.9 else "worn" if wear < 2.2 else "broken"
    return machine, shift, temperature, vibration, load, state


def write(path, rows, machines, seed, never=None):
    random_numbers = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        file.write("serial,machine,shift,temperature,vibration,load,state\n")
        written = 0
        while written < rows:
            machine, shift, temperature, vibration, load, state = row(random_numbers, machines)
            if state == never:
                continue
            fields = [machine, shift, f"{temperature:.1f}", f"{vibration:.3f}", f"{load:.0f}"]
            for column, share in ((1, 0.01), (2, 0.04), (3, 0.02)):
                if random_numbers.random() < share:
                    fields[column] = ""
            written += 1
            file.write(f"{seed}-{written:05},{','.join(fields)},{state}\n")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_data.py DIRECTORY")
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    shutil.copy(os.path.join(os.path.dirname(__file__), "boxes.toml"), directory)
    for number, (hall, (rows, machines)) in enumerate(HALLS.items(), 1):
        never = "broken" if hall == "hall-4" else None
        write(f"{directory}/{hall}.csv", rows, machines, number, never)
    write(f"{directory}/new.csv", 40000, sorted(WARM), 99)


main()
