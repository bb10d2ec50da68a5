#!/usr/bin/env python3
"""What plain TCP makes of a link in both directions at once: a client sends, a server sends
everything back as it comes. The peer of bench/links.sh.

Usage: bench/tcp_echo.py serve HOST PORT
       bench/tcp_echo.py send HOST PORT BYTES   prints the seconds until all of it is back
"""
import socket
import sys
import threading
import time


def serve(host, port):
    with socket.create_server((host, port)) as listener:
        peer, _ = listener.accept()
        with peer:
            while data := peer.recv(1 << 16):
                peer.sendall(data)


def connect(host, port):
    for _ in range(100):  # the server may not listen yet
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit(f"tcp_echo: nobody listens on {host}:{port}")


def send(host, port, count):
    with connect(host, port) as peer:
        began = time.monotonic()
        threading.Thread(target=peer.sendall, args=(bytes(count),)).start()
        while count > 0:
            got = len(peer.recv(1 << 16))
            if got == 0:
                sys.exit("tcp_echo: the server went away")
            count -= got
        print(f"{time.monotonic() - began:.6f}")


if sys.argv[1] == "serve":
    serve(sys.argv[2], int(sys.argv[3]))
else:
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
