# SPDX-License-Identifier: GPL-2.0
"""The Python program of scripts/ci runtimes; guest-runtimes has the protocol."""

import socket
import sys
import threading
from typing import Callable

PATIENCE = 30


def serve_tcp(listener: socket.socket) -> None:
    while True:
        with listener.accept()[0] as c:
            c.recv(512)
            c.sendall(b"answer\n")


def udp_socket() -> socket.socket:
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.settimeout(PATIENCE)
    return s


def serve(port: int) -> None:
    listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    udp = udp_socket()
    udp.settimeout(None)
    udp.bind(("::", port))
    threading.Thread(target=serve_tcp, args=(listener,), daemon=True).start()
    while True:
        data, source = udp.recvfrom(512)
        udp.sendto(data, source)


def as_ip6(addr: str) -> str:
    return addr if ":" in addr else "::ffff:" + addr


def request(s: socket.socket) -> None:
    with s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while s.recv(512):
            pass


def bind_and_connect(addr: str, port: int) -> None:
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    s.settimeout(PATIENCE)
    s.bind(("::", 0))
    s.connect((as_ip6(addr), port))
    request(s)


def exchange(s: socket.socket, addr: str, port: int) -> None:
    s.sendto(b"x", (as_ip6(addr), port))
    s.recv(512)


def connect_udp(addr: str, port: int, bind: bool) -> None:
    with udp_socket() as s:
        if bind:
            s.bind(("::", 0))
        s.connect((as_ip6(addr), port))
        s.send(b"x")
        s.recv(512)


def report(protocol: str, addr: str, call: str, run: Callable[[], None]) -> None:
    result = "ok"
    try:
        run()
    except OSError as e:
        result = str(e)
    print(protocol, addr, call, result, flush=True)


def client(port: int, addrs: list[str]) -> None:
    # One socket for peers of both families, not bound and bound to ::.
    unbound, bound = udp_socket(), udp_socket()
    bound.bind(("::", 0))
    for addr in addrs:
        report("tcp", addr, "create_connection",
               lambda: request(socket.create_connection((addr, port), timeout=PATIENCE)))
        report("tcp", addr, "bind-connect", lambda: bind_and_connect(addr, port))
        report("udp", addr, "sendto", lambda: exchange(unbound, addr, port))
        report("udp", addr, "bind-sendto", lambda: exchange(bound, addr, port))
        report("udp", addr, "connect", lambda: connect_udp(addr, port, False))
        report("udp", addr, "bind-connect", lambda: connect_udp(addr, port, True))


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    client(int(sys.argv[2]), sys.argv[3:])
