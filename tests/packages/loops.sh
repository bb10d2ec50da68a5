#!/bin/sh
# Training loops of one's own on bare Debian, from the packages alone. Box a has `rubato`: scheduler,
# server and a C++ worker. Box b has no such command: two loops of PyTorch and one of NumPy
# (python3-rubato), and a program in C (librubato0), which pkg-config built against rubato-dev. All five
# train one model; two of them are killed; the others reach the target.
# Root on Debian 12 or 13, five minutes, 6 GB below TMPDIR.
# Usage: [RELEASE=trixie] tests/packages/loops.sh [DIRECTORY [OTHER-DIRECTORY OTHER-RELEASE]]
#   as tests/packages/run.sh; of the other release is box b.
set -eu
cd "$(dirname "$0")/../.."
. tests/packages/boxes.sh

# install BOX PACKAGE...: names, or patterns of files there
install() {
  box=$1
  shift
  chroot "$place/$box" sh -c "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    -o Dpkg::Options::=--force-unsafe-io --no-install-recommends $*" >"$place/apt.log" 2>&1 || fail "$(tail -n 40 "$place/apt.log")"
}

say "a bare Debian $release: apt install ./rubato_*.deb"
bare_system a
install a "/root/rubato_*.deb"
if [ $# -ge 3 ]; then packages=$2 release=$3; fi
bare_system b
cp -a "$place/b" "$place/dev"
say "a bare Debian $release: apt install ./librubato0_*.deb ./python3-rubato_*.deb"
install b "/root/librubato0_*.deb /root/python3-rubato_*.deb"
! chroot "$place/b" sh -c 'command -v rubato' || fail "python3-rubato brings the command"
chroot "$place/b" python3 -c 'import rubato; print("rubato", rubato.__version__, "without PyTorch and NumPy")'
library=$(ls "$place"/b/usr/lib/*/librubato.so.0.*)
bytes=$(stat -c %s "$library")
printf '%s: %s bytes\n' "${library##*/}" "$bytes"
[ "$bytes" -le 3145728 ] || fail "librubato is larger than 3 MiB"
install b python3-torch python3-numpy
chroot "$place/b" python3 -c 'import platform, torch, numpy
print("Python", platform.python_version(), "PyTorch", torch.__version__, "NumPy", numpy.__version__)'

say "rubato-dev: a program in C, by pkg-config"
install dev "/root/rubato_*.deb /root/librubato0_*.deb /root/rubato-dev_*.deb"
chroot "$place/dev" sh -c 'cd /root && cc -O2 /usr/share/doc/rubato-dev/examples/c/mlp.c \
  $(pkg-config --cflags --libs rubato) -lm -o mlp' || fail "the program in C is not built"
cp "$place/dev/root/mlp" "$place/b/srv/"
rm -rf "$place/dev"
chroot "$place/b" ldd /srv/mlp | grep librubato

say "two boxes"
# Three heaps in four dimensions, spread about as wide as standardised columns.
awk 'BEGIN {
  srand(7)
  print "a,b,c,d,kind"
  for (i = 0; i < 3000; i++) {
    kind = i % 3
    printf "%.4f,%.4f,%.4f,%.4f,%d\n", kind - 1 + 2 * rand() - 1, (kind == 1) + 2 * rand() - 1,
      2 * rand() - 1, (kind == 2) + 2 * rand() - 1, kind
  }
}' >"$place/a/srv/data.csv"
cat >"$place/a/srv/loops.toml" <<'END'
name = "loops"
[[workers]]
name = "cpp"
step_seconds = 0.02
[[workers]]
name = "torch"
count = 2
step_seconds = 0.03
[[workers]]
name = "numpy"
step_seconds = 0.06
[[workers]]
name = "c"
step_seconds = 0.04
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "csv"
path = "/srv/data.csv"
label_column = "kind"
features = 4
classes = 3
standardize = false
[training]
batch = 16
learning_rate = 0.02
[sync.adsp]
check_period_seconds = 2
[evaluation]
interval_seconds = 1
[stop]
target_loss = 0.4
max_seconds = 200
END
cp "$place/a/srv/data.csv" "$place/a/srv/loops.toml" "$place/b/srv/"
cat >"$place/b/srv/loop.py" <<'END'
"""Four inputs, sixteen ReLU, three classes: `loop.py torch` or `loop.py numpy`."""
import logging
import sys

import numpy
import rubato

logging.basicConfig(level=logging.INFO, format="%(message)s")
table = numpy.loadtxt("/srv/data.csv", delimiter=",", skiprows=1, dtype=numpy.float32)
inputs, labels = table[:, :4].copy(), table[:, 4].astype(numpy.int64)


def by_torch():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    data = torch.from_numpy(inputs), torch.from_numpy(labels)
    with rubato.Worker("/srv/loops.toml", model, optimizer) as w:
        for x, y in w.batches(data, 16):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss, len(x))


def by_numpy():
    shapes = {"w1": (16, 4), "b1": (16,), "w2": (3, 16), "b2": (3,)}
    p = {name: numpy.zeros(shape, numpy.float32) for name, shape in shapes.items()}
    with rubato.Worker("/srv/loops.toml", p) as w:
        for x, y in w.batches((inputs, labels), 16):
            h = numpy.maximum(x @ p["w1"].T + p["b1"], 0)
            e = numpy.exp(h @ p["w2"].T + p["b2"])
            e /= e.sum(1, keepdims=True)
            loss = -numpy.log(e[numpy.arange(len(y)), y]).mean()
            e[numpy.arange(len(y)), y] -= 1
            e *= 0.02 * w.rate / len(y)
            d = (e @ p["w2"]) * (h > 0)
            p["w2"] -= e.T @ h
            p["b2"] -= e.sum(0)
            p["w1"] -= d.T @ x
            p["b1"] -= d.sum(0)
            w.step(loss, len(y))


{"torch": by_torch, "numpy": by_numpy}[sys.argv[1]]()
END
cat >"$place/b/srv/judge.py" <<'END'
"""The accuracy of a file of the run in a fresh module."""
import sys

import numpy
import rubato
import torch

table = torch.from_numpy(numpy.loadtxt("/srv/data.csv", delimiter=",", skiprows=1, dtype="f4"))
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
rubato.load(sys.argv[1], model)
print((model(table[:, :4]).argmax(1) == table[:, 4]).float().mean().item())
END
connect a 10.77.0.1/24
connect b 10.77.0.2/24
keys=$place/a/srv/keys
key() { chroot "$place/a" rubato "$@" --keys /srv/keys >/dev/null; }
workers="cpp torch-0 torch-1 numpy c"
key keygen scheduler --role scheduler
key keygen server-0 --role server
for node in $workers; do key keygen "$node" --role worker; done
for node in server-0 $workers; do key keys allow "/srv/keys/$node.pub"; done
mkdir "$place/b/srv/keys"
for node in torch-0 torch-1 numpy c; do cp -p "$keys/$node.key" "$keys/$node.pub" "$place/b/srv/keys/"; done
cp -p "$keys/scheduler.pub" "$place/b/srv/keys/"
boot a
boot b

# node BOX NAME COMMAND...: a service rubato-node-NAME, with what tells a loop who it is.
node() {
  box=$1 name=$2
  shift 2
  in_box "$box" systemd-run --quiet --remain-after-exit --unit="rubato-node-$name" --working-directory=/srv \
    --setenv=RUBATO_FILE=/srv/loops.toml --setenv=RUBATO_SCHEDULER=tcp://10.77.0.1:5700 \
    --setenv="RUBATO_NAME=$name" --setenv=RUBATO_SYNC=adsp --setenv=RUBATO_KEYS=/srv/keys \
    --setenv=RUBATO_STRETCH=1 "$@"
}
node a scheduler rubato scheduler loops.toml --bind tcp://10.77.0.1:5700 --keys keys --out out
node a server-0 rubato server loops.toml --scheduler tcp://10.77.0.1:5700 --bind tcp://10.77.0.1:5701 \
  --name server-0 --keys keys
node a cpp rubato worker loops.toml --scheduler tcp://10.77.0.1:5700 --name cpp --keys keys --stretch
for name in torch-0 torch-1; do node b "$name" python3 loop.py torch; done
node b numpy python3 loop.py numpy
node b c /srv/mlp data.csv 16
wait_for 60 "training starts" in_box a sh -c 'journalctl -u rubato-node-scheduler | grep -q "training starts"'
# ended NODE: how, 0 and up: its exit code.
ended() {
  wait_for 30 "$2 ends" in_box "$1" sh -c "[ \$(systemctl show -P SubState rubato-node-$2) != running ]"
  in_box "$1" systemctl show -P ExecMainStatus "rubato-node-$2"
}

say "two loops are killed"
sleep 5
in_box b systemctl kill --kill-whom=main --signal=KILL rubato-node-torch-1 rubato-node-c
say "the others reach the target"
wait_for 200 "the run ends" in_box a sh -c '[ "$(systemctl show -P SubState rubato-node-scheduler)" != running ]'
in_box a journalctl --no-pager -q -o cat -u rubato-node-scheduler -n 12
[ "$(ended a scheduler)" = 0 ] || fail "the scheduler failed"
in_box a sh -c 'journalctl -u rubato-node-scheduler | grep -q "target reached"' || fail "the target is not reached"
for node in server-0 cpp; do [ "$(ended a "$node")" = 0 ] || fail "$node failed"; done
for node in torch-0 numpy; do [ "$(ended b "$node")" = 0 ] || fail "$node failed"; done
results="$place/a/srv/out"
python3 - "$results/results.json" $workers <<'END' || fail "not everybody has trained"
import json
import sys

workers = json.load(open(sys.argv[1]))["runs"][0]["workers"]
print("commits:", *(each["commits"] for each in workers))
sys.exit(len(workers) != len(sys.argv) - 2 or not all(each["commits"] for each in workers))
END
cp "$results/best.safetensors" "$place/b/srv/"
accuracy=$(in_box b sh -c 'cd /srv && python3 judge.py best.safetensors')
printf 'accuracy of best.safetensors in a fresh module of PyTorch: %s\n' "$accuracy"
awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy > 0.8) }' || fail "the model has learned nothing"
printf 'loops: all passed\n'
