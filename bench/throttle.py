#!/usr/bin/env python3
"""What throttles deliver beside what was asked: links measured by iperf3, which we did not write,
beside kernel tbf in network namespaces (root); latency by one byte there and back; steps of a worker
with 1.5 to 20 times its own step time, on an idle machine and beside busy loops.

Usage: bench/throttle.py [--quick | --smoke] [--json FILE]   after bench/run.sh has built the programs
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import tools

RUBATO = "build/bench/cli/rubato"
RELAY = "build/bench/bench/bench_throttle_relay"
# tbf counts frames: a header of 66 bytes for so many segments of 1448 bytes of payload. One segment
# a frame, as on a wire, is more than a veth pair carries at 1 Gb/s.
SEGMENT, HEADER = 1448, 66
CLUSTER = """
[[workers]]
name = "node"
step_seconds = {step}
[model]
hidden = [{hidden}]
[dataset]
kind = "blobs"
features = 512
samples = 2000
[training]
batch = 64
learning_rate = 0.0001
[sync.local-sgd]
local_steps = 1000000
[evaluation]
interval_seconds = 3600
[stop]
max_seconds = {seconds}
"""


class Relays:
    """Relays and iperf3 servers, ended with the block."""

    def __init__(self):
        self.started = []

    def start(self, *command):
        self.started.append(subprocess.Popen(command, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL, text=True))
        return self.started[-1]

    def relay(self, mbps, latency, target):
        words = [RELAY, str(mbps), str(mbps), str(latency), f"tcp://127.0.0.1:{target}"]
        return int(self.start(*words).stdout.readline())

    def end(self):
        for each in self.started:
            each.terminate()
        for each in self.started:
            each.wait()
        self.started = []


@contextlib.contextmanager
def relays():
    owned = Relays()
    try:
        yield owned
    finally:
        owned.end()


def iperf(port, connections, seconds, host="127.0.0.1", box=None):
    """Received Mb/s of payload."""
    command = ["iperf3", "-c", host, "-p", str(port), "-P", str(connections), "-t", str(seconds),
               "-J"]
    if box:
        command = ["ip", "netns", "exec", box, *command]
    for _ in range(20):  # the server may not listen yet
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        report = json.loads(done.stdout or "{}")
        if "end" in report and "sum_received" in report["end"]:
            return report["end"]["sum_received"]["bits_per_second"] / 1e6
        time.sleep(0.2)
    sys.exit(f"throttle: iperf3: {report.get('error', done.stderr)}")


def through_relay(mbps, connections, seconds):
    with relays() as owned:
        [inside] = tools.free_ports(1)
        owned.start("iperf3", "-s", "-p", str(inside))
        return iperf(owned.relay(mbps, 0, inside), connections, seconds)


def run(*command):
    subprocess.run(command, check=True)


@contextlib.contextmanager
def boxes(segments):
    near, far = f"rubato-near-{os.getpid()}", f"rubato-far-{os.getpid()}"
    try:
        run("ip", "netns", "add", near)
        run("ip", "netns", "add", far)
        run("ip", "link", "add", "near", "netns", near, "type", "veth", "peer", "name", "far",
            "netns", far)
        for box, device, address in ((near, "near", "10.78.0.1"), (far, "far", "10.78.0.2")):
            run("ip", "-n", box, "link", "set", device, "up", "gso_max_segs",
                str(segments))
            run("ip", "-n", box, "address", "add", f"{address}/24", "dev", device)
        yield near, far
    finally:
        for box in (near, far):
            subprocess.run(["ip", "netns", "del", box], check=False, stderr=subprocess.DEVNULL)


def through_tbf(mbps, connections, seconds):
    segments = 1 if mbps <= 100 else 40
    with boxes(segments) as (near, far), relays() as owned:
        run("ip", "netns", "exec", near, "tc", "qdisc", "add", "dev", "near", "root", "tbf", "rate",
            f"{mbps}mbit", "burst", str(max(16_000, int(mbps * 1000))), "latency", "50ms")
        owned.start("ip", "netns", "exec", far, "iperf3", "-s", "-p", "5201")
        payload = iperf(5201, connections, seconds, "10.78.0.2", near)
    return payload * (1 + HEADER / (segments * SEGMENT))


def one_way_ms(latency, messages):
    """Half of the median time of one byte there and back."""
    with relays() as owned, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = owned.relay(0, latency, listener.getsockname()[1])
        near = socket.create_connection(("127.0.0.1", port))
        far = listener.accept()[0]
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for _ in range(messages):
            began = time.perf_counter()
            near.send(b"x")
            far.send(far.recv(1))
            near.recv(1)
            times.append((time.perf_counter() - began) * 500)
        near.close()
        far.close()
        return statistics.median(times)


def spin(until):
    while time.time() < until:
        pass


def steps(step, hidden, seconds, busy):
    """A step takes `step` seconds at least; `busy`: so many loops take processor time. Mean seconds of a step of a real worker, by the worker's clock; and whether the run is marked."""
    spinners = []
    until = time.time() + seconds + 4
    for _ in range(busy):
        spinners.append(multiprocessing.Process(target=spin, args=(until,)))
        spinners[-1].start()
    with tempfile.TemporaryDirectory() as place:
        file = os.path.join(place, "one.toml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(CLUSTER.format(step=step, hidden=hidden, seconds=seconds))
        words = ["up", file, "--sync", "local-sgd", "--json", "--quiet", "--out",
                 os.path.join(place, "out")]
        done = subprocess.run([RUBATO, *words], capture_output=True, text=True, check=False)
    for each in spinners:
        each.terminate()
        each.join()
    if done.returncode != 0:
        sys.exit(f"throttle: {done.stderr.strip()}")
    result = json.loads(done.stdout)["runs"][0]
    worker = result["workers"][0]
    return worker["compute_s"] / worker["steps"], "late_s" in worker


class Rows:
    def __init__(self):
        self.rows = []

    def add(self, name, value, unit, peer, peer_value, bar=None):
        ratio = value / peer_value if peer_value else None
        self.rows.append({"name": name, "value": value, "unit": unit, "peer": peer,
                          "peer_value": peer_value, "ratio": ratio, "bar": bar})
        print(f"{name:58} {value:10.4g} {unit}, {peer} {peer_value:.4g} {bar or ''}", flush=True)

    def error(self, name, got, asked, limit):
        """Deviation in percent, with its bar."""
        off = 100 * abs(got - asked) / asked
        bar = f"<= {limit:g} %" if limit else None
        self.rows.append(tools.value_row(name, off, "%", bar))
        print(f"{name:58} {off:10.3g} % {bar or ''}", flush=True)


def links(rows, rates, seconds):
    root = os.geteuid() == 0 and shutil.which("tc")
    for mbps in rates:
        for connections in (1, 8):
            name = f"{mbps} Mb/s, {connections} connection{'s' if connections > 1 else ''}"
            got = through_relay(mbps, connections, seconds)
            if root:
                tbf = through_tbf(mbps, connections, seconds)
                rows.add(f"{name}: iperf3 through the throttle", got, "Mb/s", "tbf, with headers",
                         tbf)
            rows.error(f"{name}: off the asked rate", got, mbps, 5)


def latencies(rows, asked, messages):
    for ms in asked:
        got = one_way_ms(ms / 1000, messages)
        rows.add(f"{ms} ms: one byte, one way", got, "ms", "asked", ms)
        rows.error(f"{ms} ms: off the asked latency", got, ms, 100 * max(1, 0.02 * ms) / ms)


def compute(rows, factors, seconds):
    hidden = 2048
    own, _ = steps("0.000001", hidden, seconds, 0)
    cores = os.cpu_count()
    for busy in sorted({0, cores - 1, cores}):
        for factor in factors:
            asked = own * factor
            got, marked = steps(f"{asked:.9f}", hidden, seconds, busy)
            name = f"{factor} x, {busy} of {cores} cores busy: mean step"
            rows.add(name, got * 1e3, "ms", "asked", asked * 1e3)
            # Beside a busy loop a thread has half a core: less than a step of 1.5 x needs, and
            # just what one of 2 x does.
            rows.error(f"{name}, off" + (", and marked" if marked else ""), got, asked,
                       3 if busy < cores or factor > 2 else None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--only", choices=["links", "latency", "steps"])
    options = parser.parse_args()
    tools.forget_pinned_kernels()
    brief = options.quick or options.smoke
    rows = Rows()
    if options.only in (None, "links"):
        links(rows, (10,) if options.smoke else (1, 10, 100, 1000), 2 if brief else 8)
    if options.only in (None, "latency"):
        latencies(rows, (5,) if options.smoke else (1, 5, 20, 100), 5 if brief else 40)
    if options.only in (None, "steps"):
        compute(rows, (3,) if options.smoke else (1.5, 2, 5, 20), 3 if brief else 10)
    tools.write_rows(options.json, rows.rows)


if __name__ == "__main__":
    main()
