#!/usr/bin/env python3
"""Boxes in network namespaces, each with an /etc/hosts of its own: names that stand for several
addresses, or for the box itself; links that lose only large packets; loopback that is down.

    tests/networks.py [walk names large loopback]   # default: all; root; four minutes; exit code 77: not permitted

- The walk of docs/operations/boxes.md, from names and keys to the start, with its commands word for
  word, where head has the line "127.0.1.1 head" that Debian writes. `systemctl` is replaced by what the
  units start.
- A table of /etc/hosts: a cluster that uses names trains, or says which line is in the way.
- A table of links that lose packets beyond a size, and ICMP: the worker and `doctor` say so within a minute, and scheduler
  and `status` where the worker reaches the scheduler; and the remedies that they name help. It needs nftables.
- Commands where loopback is down end with one line within 5 s.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
ADDRESS = {"head": "192.168.77.1", "north": "192.168.77.2", "south": "192.168.77.3"}


def run(command, **more):
    return subprocess.run(command, shell=True, text=True, capture_output=True, **more)


def must(command):
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"networks: {command}: {done.stderr}")


class Box:
    """A network namespace with a directory for what differs between boxes."""

    def __init__(self, place, name, switch):
        self.name, self.place = name, os.path.join(place, name)
        self.net = f"rubato-{name}-{os.getpid()}"
        must(f"ip netns add {self.net}")
        must(f"ip link add eth0 netns {self.net} type veth peer name {name} netns {switch}")
        # Packets that are joined until they leave would have no size of their own.
        must(f"ip -n {switch} link set {name} gso_max_segs 1 && ip -n {self.net} link set eth0 gso_max_segs 1")
        must(f"ip -n {switch} link set {name} master switch up")
        must(f"ip -n {self.net} addr add {ADDRESS[name]}/24 dev eth0 && "
             f"ip -n {self.net} addr add fd77::{ADDRESS[name][-1]}/64 dev eth0 nodad && "
             f"ip -n {self.net} link set eth0 up && ip -n {self.net} link set lo up")
        for directory in ("etc", "etc.work", "lib", "srv", "bin"):
            os.makedirs(os.path.join(self.place, directory))
        self.keeper = subprocess.Popen(
            ["ip", "netns", "exec", self.net, "unshare", "-m", "-u", "sh", "-c", f"""
                set -e
                mount -t overlay overlay -o lowerdir=/etc,upperdir={self.place}/etc,workdir={self.place}/etc.work /etc
                mount --bind {self.place}/lib /var/lib
                mount --bind {self.place}/srv /srv
                hostname {name}
                echo ready; exec sleep infinity"""], stdout=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            sys.exit(77)
        self.pid = run(f"ip netns pids {self.net}").stdout.split()[0]

    def hosts(self, text):
        self.sh("cat >/etc/hosts", text)

    def words(self, command):
        return ["nsenter", "-t", self.pid, "-m", "-n", "-u", "env",
                f"PATH={self.place}/bin:{os.environ['PATH']}", "RUBATO_KEYS=/etc/rubato/keys", "sh", "-ec", command]

    def sh(self, command, given=""):
        return subprocess.run(self.words(command), text=True, capture_output=True, check=False, input=given)

    def begin(self, command, log):
        with open(log, "w", encoding="utf-8") as out:
            return subprocess.Popen(self.words("exec " + command), stdout=out, stderr=out)

    def write(self, name, text):
        path = os.path.join(self.place, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)


class Network:
    def __init__(self, place, rubato):
        self.place, self.rubato = place, rubato
        self.switch = f"rubato-switch-{os.getpid()}"
        must(f"ip netns add {self.switch}")
        must(f"ip -n {self.switch} link add switch type bridge && ip -n {self.switch} link set switch up")
        self.boxes = {}
        for name in ADDRESS:
            self.boxes[name] = Box(place, name, self.switch)
            self.boxes[name].write("rubato", f'#!/bin/sh\nexec {rubato} "$@"\n')
        self.started = []

    def begin(self, box, command, log):
        process = self.boxes[box].begin(command, log)
        self.started.append(process)
        return process

    def stop(self):
        for process in self.started:
            process.send_signal(signal.SIGINT)
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.started = []

    def end(self):
        self.stop()
        for box in self.boxes.values():
            run(f"ip netns pids {box.net} | xargs -r kill -KILL")
            box.keeper.wait()
            run(f"ip netns del {box.net}")
        run(f"ip netns del {self.switch}")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def wait_for(text, log, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if re.search(text, read(log)):
            return True
        time.sleep(0.1)
    return False


# --- The walk ------------------------------------------------------------------------------------

# What the units start, for `systemctl enable --now UNIT...` and `runuser -u rubato -- COMMAND`.
SYSTEMCTL = """#!/usr/bin/env python3
import re, shlex, subprocess, sys
conf = dict(re.findall(r"(?m)^([A-Z_]+)=(.*)$", open("/etc/rubato/rubato.conf").read()))
for unit in sys.argv[3:]:
    kind, _, instance = unit.partition("@")
    text = open(f"{units}/{kind}{'@' if instance else ''}.service.in").read()
    start = re.search(r"(?m)^ExecStart=((?:.*\\\\\\n)*.*)$", text)[1].replace("\\\\\\n", " ")
    start = start.replace("@RUBATO_BINARY@", "rubato").replace("%S", "/var/lib").replace("%i", instance)
    words = []
    for word in start.split():
        if word.startswith("${"):
            words.append(conf[word[2:-1]])
        elif word.startswith("$"):
            words += conf[word[1:]].split()
        else:
            words.append(word)
    log = open(f"/var/lib/{unit}.log", "w")
    subprocess.Popen(["setsid", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
"""


def walk_steps():
    """(boxes, commands) of the walk, from names to the start."""
    text = read(os.path.join(ROOT, "docs/operations/boxes.md"))
    section = text[text.index("**2. Names"):text.index("**9. Watch")]
    for part in re.split(r"(?=<!-- (?:on|carry))", section)[1:]:
        if part.startswith("<!-- carry keys"):
            yield "carry", ""
            continue
        boxes = re.match(r"<!-- on: (.*?) -->", part)[1]
        block = re.search(r"-->\n((?:    .*\n|\n)+)", part)[1]
        yield boxes, "\n".join(line[4:] for line in block.split("\n"))


def walk(network):
    failures = []
    for name, box in network.boxes.items():
        box.hosts(LOCAL + (f"127.0.1.1 {name}\n" if name == "head" else ""))
        box.write("runuser", '#!/bin/sh\nshift 3; exec "$@"\n')
        box.write("systemctl", SYSTEMCTL.replace("{units}", os.path.join(ROOT, "deploy/systemd")))
        box.sh("mkdir -p /etc/rubato/keys /var/lib/rubato && "
               f"cp {ROOT}/deploy/systemd/rubato.conf /etc/rubato/ && chmod 700 /etc/rubato/keys")
        shift = 6 if name == "south" else 0
        with open(os.path.join(box.place, "srv/readings.csv"), "w", encoding="utf-8") as file:
            file.write("temperature,vibration,fault\n")
            for i in range(600):
                heat, shake = 40 + shift + i * 7 % 30, i * 13 % 50 / 10
                file.write(f"{heat},{shake},{'yes' if heat / 20 + shake > 5.4 else 'no'}\n")
    for boxes, commands in walk_steps():
        if boxes == "carry":
            head = network.boxes["head"]
            for name in ("north", "south"):
                for source, to, key in ((head, network.boxes[name], "scheduler"), (network.boxes[name], head, name)):
                    path = f"/etc/rubato/keys/{key}.pub"
                    to.sh(f"cat >{path}", source.sh(f"cat {path}").stdout)
            continue
        if "nft " in commands:
            continue  # no firewall here
        for name in boxes.split():
            done = network.boxes[name].sh("cd /root\n" + commands)
            if done.returncode != 0 and "doctor" not in commands:
                failures.append(f"walk: {name}: {commands}\n{done.stdout}{done.stderr}")
            if "doctor" in commands and re.search(r"problem +(bind|scheduler)", done.stdout):
                failures.append(f"walk: doctor of {name}:\n{done.stdout}")
    head = network.boxes["head"]
    if not wait_for("training starts", os.path.join(head.place, "lib/rubato-scheduler.log"), 30):
        logs = run(f"tail -n 5 {network.place}/*/lib/*.log").stdout
        failures.append(f"walk: no training within 30 s\n{logs}")
    for box in network.boxes.values():
        run(f"ip netns pids {box.net} | grep -v '^{box.pid}$' | xargs -r kill -KILL")
    return failures


def bad_end(what, scheduler, seconds):
    """Returns: a line, unless it ends well within so many seconds."""
    try:
        code = scheduler.wait(seconds)
    except subprocess.TimeoutExpired:
        code = "still running"
    return [] if code == 0 else [f"{what}: the scheduler ended with {code}"]


# --- The table -----------------------------------------------------------------------------------

CLUSTER = """[[workers]]
name = "north"
step_seconds = 0.002
[model]
hidden = [8]
[dataset]
kind = "blobs"
samples = 400
[sync.adsp]
check_period_seconds = 0.5
[stop]
max_seconds = 1
"""
N = LOCAL + "192.168.77.1 head\n"  # /etc/hosts of north
# What, /etc/hosts of head and of north, hosts at which scheduler and server listen, what the nodes are
# told, and the expected: lines of the logs ("head:" by doctor there); "trains" or not.
CASES = [
    ("Debian's line before ours", LOCAL + "127.0.1.1 head\n192.168.77.1 head\n", N, "head", "head", True, []),
    ("Debian's line behind ours, with a domain", LOCAL + "192.168.77.1 head\n127.0.1.1 head.hall.example head\n",
     N, "head", "head", True, []),
    ("SUSE's line", LOCAL + "127.0.0.2 head\n192.168.77.1 head\n", N, "192.168.77.1", "head", True, []),
    ("loopback of IPv6", LOCAL + "::1 head\n192.168.77.1 head\n", N, "head", "head", True, []),
    ("capitals, a tab and a comment", "127.0.0.1\tlocalhost HEAD # written by the installer\n192.168.77.1 Head\n",
     N, "head", "head", True, []),
    ("an address that nobody has before the right one", N, LOCAL + "192.168.77.99 head\n192.168.77.1 head\n",
     "192.168.77.1", "192.168.77.1", True, []),
    ("an address without a route before the right one", N, LOCAL + "10.99.0.1 head\n192.168.77.1 head\n",
     "head", "head", True, []),
    ("another machine's address before the right one", N, LOCAL + "192.168.77.3 head\n192.168.77.1 head\n",
     "head", "head", True, []),
    ("only IPv6 answers", LOCAL + "fd77::1 head\n", LOCAL + "192.168.77.99 head\nfd77::1 head\n", "head", "head", True, []),
    ("a disk that was copied from head", N, LOCAL + "127.0.1.1 head\n192.168.77.1 head\n", "head", "head", True, []),
    ("Debian's line alone", LOCAL + "127.0.1.1 head\n", N, "head", "head", False,
     [("scheduler", r"--bind tcp://head:5700: head stands for 127.0.1.1, which no other box reaches "
       r"\(/etc/hosts, line 3: 127.0.1.1 head\)"),
      ("server", r"--bind tcp://head:5701: .*/etc/hosts, line 3"),
      ("doctor", r"warning +bind tcp://head:5700: head stands for 127.0.1.1.*/etc/hosts, line 3"),
      ("worker", "cannot reach the scheduler at tcp://head:5700")]),
    ("the name on the line of localhost", "127.0.0.1 localhost head\n", N, "head", "head", False,
     [("scheduler", r"/etc/hosts, line 1: 127.0.0.1 localhost head"), ("server", r"/etc/hosts, line 1"),
      ("doctor", r"warning +bind tcp://head:5700: .*/etc/hosts, line 1")]),
    ("a worker whose name of head is itself", N, LOCAL + "\n127.0.1.1 head\n", "head", "head", False,
     [("worker", r"cannot reach the scheduler at tcp://head:5700 \(127.0.1.1\): head stands for 127.0.1.1, "
       r"which no other box reaches \(/etc/hosts, line 4: 127.0.1.1 head\)"),
      ("north doctor", r"problem +scheduler tcp://head:5700: .*[\s\S]*/etc/hosts, line 4")]),
    ("what is advertised", LOCAL + "127.0.1.1 head\n", N, "0.0.0.0", "0.0.0.0 --advertise tcp://head:5701", True,
     [("server", r"--advertise tcp://head:5701: head stands for 127.0.1.1.*/etc/hosts, line 3")]),
    ("localhost is meant", LOCAL, LOCAL, "localhost", "localhost", False, [("doctor", r"ok +bind tcp://localhost")]),
]


def table(network):
    failures = []
    head, north = network.boxes["head"], network.boxes["north"]
    with open(os.path.join(network.place, "c.toml"), "w", encoding="utf-8") as file:
        file.write(CLUSTER)
    cluster = os.path.join(network.place, "c.toml")
    for number, (what, of_head, of_north, scheduler_at, server_at, trains, expected) in enumerate(CASES):
        place = os.path.join(network.place, f"case-{number}")
        os.mkdir(place)
        head.hosts(of_head)
        north.hosts(of_north)
        log = {name: os.path.join(place, name) for name in ("scheduler", "server", "worker", "doctor", "north doctor")}
        bind, _, more = server_at.partition(" ")
        with open(log["doctor"], "w", encoding="utf-8") as file:
            file.write(head.sh(f"rubato doctor {cluster} --bind tcp://{scheduler_at}:5700 || true").stdout)
        network.begin("north", f"rubato worker {cluster} --scheduler tcp://head:5700 --name north --insecure", log["worker"])
        network.begin("head", f"rubato server {cluster} --scheduler tcp://{'localhost' if what == 'localhost is meant' else 'head'}:5700 "
                      f"--bind tcp://{bind}:5701 {more} --insecure", log["server"])
        time.sleep(0.5)  # who comes first finds nobody
        scheduler = network.begin("head", f"rubato scheduler {cluster} --bind tcp://{scheduler_at}:5700 --insecure "
                                  f"--out {place}/out --missed-ok", log["scheduler"])
        if trains:
            failures += bad_end(what, scheduler, 25)
        if any(name == "north doctor" for name, _ in expected):
            with open(log["north doctor"], "w", encoding="utf-8") as file:
                file.write(north.sh(f"rubato doctor {cluster} --scheduler tcp://head:5700 || true").stdout)
        for name, text in expected:
            if not wait_for(text, log[name], 12):
                failures.append(f"{what}: {name} does not say {text}:\n{read(log[name])}")
        for name in ("scheduler", "server"):
            if not any(each == name for each, _ in expected) and "stands for" in read(log[name]):
                failures.append(f"{what}: {name} warns without need:\n{read(log[name])}")
        network.stop()
        if failures and failures[-1].startswith(what):
            failures.append("".join(f"-- {name}:\n{read(path)[-1500:]}" for name, path in log.items()
                                    if os.path.exists(path)))
    return failures


# --- Large packets -------------------------------------------------------------------------------

LOST = "large packets are lost on the way"
BOTH = ("head", "north")
# What, the boxes that lose what arrives beyond so many bytes, the box of the server, what is done about it.
LARGE = [
    ("a VPN of 1000 bytes", BOTH, 1000, "head", None),
    ("one of 1400 bytes", BOTH, 1400, "head", None),
    ("one of 600 bytes", BOTH, 600, "head", None),
    ("only what goes to the server is lost", ("head",), 1200, "head", None),
    ("only what comes from the server is lost", ("north",), 1200, "head", None),
    ("the scheduler is reached, a server elsewhere is not", ("south",), 1280, "south", None),
    ("nothing is lost", (), 1500, "head", None),
    ("the remedy: probing", BOTH, 1000, "head", "sysctl -qw net.ipv4.tcp_mtu_probing=1"),
    ("the remedy: a smaller MTU", BOTH, 1000, "head", "ip link set dev eth0 mtu 1000"),
]


def lossy(box, bytes_max):
    box.sh("nft flush ruleset; nft add table inet t; nft add chain inet t i '{ type filter hook input priority 0; }'; "
           f"nft add rule inet t i iif eth0 meta length '>' {bytes_max} drop; nft add rule inet t i icmp type "
           "destination-unreachable drop")


def large(network):
    if run("command -v nft").returncode != 0:
        print("large packets: skipped: there is no nft")
        return []
    failures = []
    cluster = os.path.join(network.place, "large.toml")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(CLUSTER.replace("hidden = [8]", "hidden = [64, 64]"))
    for number, (what, losing, bytes_max, server, remedy) in enumerate(LARGE):
        place = os.path.join(network.place, f"large-{number}")
        os.mkdir(place)
        log = {name: os.path.join(place, name) for name in ("scheduler", "server", "worker")}
        for box in network.boxes.values():
            box.hosts(LOCAL + "".join(f"{ADDRESS[name]} {name}\n" for name in ADDRESS))
            box.sh("nft flush ruleset; sysctl -qw net.ipv4.tcp_mtu_probing=0; ip link set dev eth0 mtu 1500")
            box.sh(remedy or "true")
        for name in losing:
            lossy(network.boxes[name], bytes_max)
        scheduler = network.begin("head", f"rubato scheduler {cluster} --bind tcp://head:5700 --insecure "
                                  f"--out {place}/out --missed-ok", log["scheduler"])
        network.begin(server, f"rubato server {cluster} --scheduler tcp://head:5700 --bind tcp://{server}:5701 "
                      "--insecure", log["server"])
        network.begin("north", f"rubato worker {cluster} --scheduler tcp://head:5700 --name north --insecure", log["worker"])
        if not losing or remedy:
            failures += bad_end(what, scheduler, 60)
        else:
            # What the worker cannot tell the scheduler, it says alone.
            heard = losing[0] != "head"
            for name in ("worker", "scheduler") if heard else ("worker",):
                if not wait_for(LOST, log[name], 40):
                    failures.append(f"{what}: {name} does not say it:\n{read(log[name])}")
            status = network.boxes["head"].sh("rubato status --scheduler tcp://head:5700 --insecure").stdout
            if heard and LOST not in " ".join(status.split()):
                failures.append(f"{what}: status does not say it:\n{status}")
            doctor = network.boxes["north"].sh(f"rubato doctor {cluster} --scheduler tcp://head:5700").stdout
            if (LOST in " ".join(doctor.split())) != (server == "head"):
                failures.append(f"{what}: doctor does not say it:\n{doctor}")
        network.stop()
    for box in network.boxes.values():
        box.sh("nft flush ruleset")
    return failures


# --- Loopback that is down -----------------------------------------------------------------------

# Commands, on a box whose loopback is down; and whether they end with that line.
WITHOUT_LOOPBACK = [
    ("rubato up {c}", True),
    ("rubato up {c} --throttle", True),
    ("rubato compare {c} --sync bsp --real", True),
    ("rubato scheduler {c} --bind tcp://127.0.0.1:5700", True),
    ("rubato scheduler {c} --bind tcp://localhost:5700", True),
    ("rubato server {c} --scheduler tcp://localhost:5700 --bind tcp://127.0.0.1:5701", True),
    ("rubato server {c} --scheduler tcp://head:5700 --bind tcp://head:5701 --insecure", True),
    ("rubato worker {c} --scheduler tcp://127.0.0.1:5700 --name north", True),
    ("rubato worker {c} --scheduler tcp://[::1]:5700 --name north", True),
    ("rubato status --scheduler tcp://127.0.0.1:5700", True),
    ("rubato compare {c} --sync bsp --quiet --out {out}", False),
]


def loopback(network):
    failures = []
    head = network.boxes["head"]
    head.hosts(LOCAL + "192.168.77.1 head\n")
    head.sh("ip link set lo down")
    cluster = os.path.join(network.place, "without.toml")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(CLUSTER)
    for command, ends in WITHOUT_LOOPBACK:
        began = time.monotonic()
        done = head.sh("cd /srv; timeout 15 " + command.format(c=cluster, out=network.place + "/without"))
        seconds = time.monotonic() - began
        line = "the loopback interface is down" in done.stderr and "ip link set dev lo up" in done.stderr
        if ends != line or (ends and (seconds > 5 or done.returncode not in (1, 2))):
            failures.append(f"without loopback: {command}: {seconds:.1f} s, {done.returncode}: {done.stderr}")
    doctor = head.sh("rubato doctor").stdout
    if "problem interfaces: loopback is down" not in doctor:
        failures.append(f"without loopback: doctor does not say it:\n{doctor}")
    head.sh("ip link set lo up")
    return failures


def main():
    # A caller that works in the background may ignore it, and so would all nodes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rubato", default=os.path.join(ROOT, "build/dev/cli/rubato"))
    parts = {"walk": walk, "names": table, "large": large, "loopback": loopback}
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    options = parser.parse_args()
    if os.geteuid() != 0 or run("command -v ip nsenter unshare").returncode != 0 or run("unshare -n true").returncode != 0:
        print("skipped: network namespaces are not permitted here")
        return 77
    with tempfile.TemporaryDirectory() as place:
        network = Network(place, os.path.abspath(options.rubato))
        try:
            failures = []
            for name in options.parts or parts:
                failures += parts[name](network)
        finally:
            network.end()
    print("\n".join(failures))
    print(f"networks: {', '.join(options.parts or parts)}: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
