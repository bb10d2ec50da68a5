"""What the scripts of this folder share."""
import json
import os
import socket


def forget_pinned_kernels():
    """Programs that are started from now on choose OpenBLAS's kernels themselves."""
    for name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
        del os.environ[name]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def value_row(name, value, unit, bar=None):
    """A row of write_rows() that has no peer."""
    return {"name": name, "value": value, "unit": unit, "peer": None, "peer_value": None,
            "ratio": None, "bar": bar}


def write_rows(path, rows):
    """For bench/table.py. Nothing where `path` is None."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
