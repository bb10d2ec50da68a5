#!/usr/bin/env python3
"""The rule of tests/soak.py on curves that grow, and on curves that only look so."""
import pathlib
import random
import tempfile
import unittest

from soak import GUESTS, KIB, MIB, Curve, judge, judge_journal

SECONDS, EVERY = 600, 5


def wrong(quantity, value, node="scheduler", minutes=10, visits=0):
    """What the rule says of value(seconds)."""
    curve = Curve(node, quantity)
    curve.at = list(range(0, SECONDS, EVERY))
    curve.values = [value(at) for at in curve.at]
    return judge(curve, visits, minutes)[1]


def journal(records):
    """A scheduler's journal with records of so many bytes."""
    header = b"RBTOJRNL" + (5).to_bytes(8, "little") + (100).to_bytes(8, "little")
    return (header.ljust(4096, b"\0") * 3
            + b"".join(size.to_bytes(3, "little") + bytes(5 + size) for size in records))


class Rule(unittest.TestCase):
    def test_growth_is_named(self):
        chance = random.Random(1)
        leak = wrong("private", lambda at: 8 * MIB + KIB * at + chance.uniform(0, 64 * KIB))
        self.assertRegex(leak, "^scheduler: private grows by 3,... KiB an hour, and 2,048 KiB are "
                               "allowed$")
        self.assertTrue(wrong("files", lambda at: 30 + at // 30))
        self.assertTrue(wrong("threads", lambda at: 8 + at // 60))
        self.assertTrue(wrong("mappings", lambda at: 200 + at // 15))
        self.assertTrue(wrong("journal", lambda at: at // 5 * 64 * KIB, "server-0"))
        self.assertTrue(wrong("snapshots", lambda at: at // 5 * 2 * KIB, "server-0"))
        self.assertTrue(wrong("log", lambda at: 100 * at))

    def test_what_does_not_grow_passes(self):
        chance = random.Random(1)
        self.assertFalse(wrong("private", lambda at: 8 * MIB + chance.uniform(0, MIB)))
        self.assertFalse(wrong("private", lambda at: 8 * MIB + (2 * MIB if at > 400 else 0)))
        self.assertFalse(wrong("private", lambda at: min(at, 240) * 64 * KIB))
        self.assertFalse(wrong("files", lambda at: 30 + at // 15 % 3))
        self.assertFalse(wrong("journal", lambda at: at % 13 * 128 * KIB, "server-0"))
        self.assertFalse(wrong("log", lambda at: 15 * at, visits=10))

    def test_guests_and_short_runs(self):
        leak = lambda at: KIB * at
        self.assertFalse(wrong("private", leak, GUESTS[0]))
        self.assertFalse(wrong("private", leak, minutes=2))

    def test_journal_of_the_scheduler(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "scheduler.journal"
            path.write_bytes(journal([2000, 60, 60]))
            end, middle = path.stat().st_size, path.stat().st_size - 2 * 68
            heard = lambda commits: [(0, 0), (10, middle), (10 + commits, end)]
            self.assertEqual(judge_journal(path, heard(2)), (68, 68, []))
            self.assertIn("bytes a commit", judge_journal(path, heard(1))[2][0])
            path.write_bytes(journal([60, 2000, 60]))
            self.assertIn("a record of 2008 bytes",
                          judge_journal(path, [(0, 0), (10, middle - 1000), (90, end)])[2][0])


if __name__ == "__main__":
    unittest.main()
