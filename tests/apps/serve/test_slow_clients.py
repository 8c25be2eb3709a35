"""Clients that send half of a request, or nothing, against a real server on loopback; few of them, for seconds."""

import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import pytest

import halfstep as hs
from halfstep.apps.serve.connections import MAX_PIPELINED, SPARE, most_connections
from halfstep.apps.serve.settings import Settings

pytestmark = pytest.mark.heavy

HALF = b"GET /recommend?user=Economist HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET /recommend?user=Economist&n=3 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BODY = b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n"


@contextmanager
def connections(url: str, count: int) -> Iterator[list[socket.socket]]:
    address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(count)]


def answered(client: socket.socket, status: int = 200) -> bool:
    """Reads one whole answer."""
    head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(body) < length:
        body += client.recv(65536)
    return head.startswith(b"HTTP/1.1 %d" % status)


def keeps_sending(client: socket.socket, what: bytes, pause: float) -> None:
    """Until it is cut off, or for twenty seconds."""
    begun = time.monotonic()
    while time.monotonic() < begun + 20:
        client.sendall(what)
        time.sleep(pause)


def heard(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_half_a_header_and_silence_are_sent_away(skills_file: Path, start_server) -> None:
    url, _, _ = start_server(skills_file, '{"port": 0, "header_timeout": 0.5}')
    with connections(url, 4) as (half, silent, kept, extra):
        half.sendall(HALF)
        kept.sendall(WHOLE)
        assert answered(kept)
        kept.sendall(HALF)  # the second request on a connection that was kept is no different
        extra.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\nx")
        assert answered(extra)
        extra.sendall(b"x")  # a body that nobody asked for, without end
        for client in (half, silent, kept, extra):
            assert heard(client).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_a_drop_now_and_then_does_not_buy_time(skills_file: Path, start_server) -> None:
    url, _, _ = start_server(skills_file, '{"port": 0, "header_timeout": 1}')
    with connections(url, 1) as (client,):
        client.sendall(HALF)
        with pytest.raises(OSError):  # closed while it drips
            keeps_sending(client, b"x", 0.05)


def test_many_slow_clients_make_room_for_a_quick_one(skills_file: Path, start_server) -> None:
    url, _, log = start_server(skills_file, '{"port": 0, "max_connections": 20, "header_timeout": 60, "timeout": 60}')
    with connections(url, 30) as slow, httpx.Client(timeout=30) as client:
        for number, one in enumerate(slow):
            one.sendall((HALF, BODY, b"")[number % 3])
        assert client.get(url + "/recommend?user=Economist&n=3").status_code == 200
        for _ in range(5):  # a connection each
            assert httpx.get(url + "/ready", timeout=30).status_code == 200
        assert client.get(url + "/health").status_code == 200  # whoever has been answered is kept before them
        assert heard(slow[0]).startswith(b"HTTP/1.1 408")  # the oldest went first
    assert not [line for line in log.read_text().splitlines() if '"level": "error"' in line]


def test_a_client_that_reads_nothing_is_cut_off(tmp_path: Path, start_server) -> None:
    model = hs.WALS(rank=2, max_iter=1, random_state=0).fit(np.ones((2, 3000)))
    model.save(tmp_path / "wide.safetensors")
    options = '{"port": 0, "timeout": 0.5, "max_n": 3000, "access_log": false}'
    url, _, _ = start_server(tmp_path / "wide.safetensors", options)
    ask = b"GET /recommend?user=0&n=3000&keep_seen=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        with pytest.raises(OSError):  # asks on and on, and reads no answer
            keeps_sending(client, ask, 0.02)


def resident(process: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_headers_without_end_are_refused_before_they_fill_the_memory(skills_file: Path, start_server) -> None:
    url, process, _ = start_server(skills_file, '{"port": 0, "header_timeout": 20}')
    before = resident(process)
    with connections(url, 2) as (first, second):
        with pytest.raises(OSError):  # cut off on the way
            first.sendall(HALF + (b"x" * 5000 + b"\r\nX-More: ") * 20_000)
        second.sendall(WHOLE + HALF)
        assert answered(second)
        for _ in range(66):  # the second request on a connection is no different
            second.sendall(b"x" * 1000)
            time.sleep(0.01)
        assert heard(second).startswith(b"HTTP/1.1 431 ")
    assert resident(process) < before + 20_000_000


def test_whoever_asks_on_and_on_without_waiting_is_cut_off(skills_file: Path, start_server) -> None:
    url, process, log = start_server(skills_file)
    before = resident(process)
    with connections(url, 20) as clients:
        for client in clients:
            with suppress(OSError):
                client.sendall(WHOLE * 3000)
        assert httpx.get(url + "/health", timeout=30).status_code == 200
        for client in clients:
            with suppress(ConnectionResetError):
                assert heard(client).count(b"HTTP/1.1 200") <= 2 * MAX_PIPELINED
    with connections(url, 1) as (client,):
        client.sendall(WHOLE * (MAX_PIPELINED - 1) + WHOLE[:-2] + b"Connection: close\r\n\r\n")
        assert heard(client).count(b"HTTP/1.1 200") == MAX_PIPELINED
    assert resident(process) < before + 60_000_000
    assert '"level": "error"' not in log.read_text()


def test_clients_that_leave_with_answers_under_way_are_no_errors(tmp_path: Path, start_server) -> None:
    """Two answers wait behind one that is too large for the buffers when the connection breaks."""
    hs.WALS(rank=2, max_iter=1, random_state=0).fit(np.ones((2, 30_000))).save(tmp_path / "wide.safetensors")
    url, _, log = start_server(tmp_path / "wide.safetensors", '{"port": 0, "timeout": 0.3, "max_n": 30000}')
    ask = b"GET /recommend?user=0&n=30000&keep_seen=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", int(url.rsplit(":", 1)[1])))
        client.sendall(ask * 6)
        time.sleep(3)
    assert httpx.get(url + "/health", timeout=30).status_code == 200
    assert '"level": "error"' not in log.read_text()


def test_stopping_finishes_what_was_accepted_and_says_goodbye_to_the_rest(skills_file: Path, start_server) -> None:
    url, process, log = start_server(skills_file, '{"port": 0, "timeout": 20}')
    with connections(url, 5) as (idle, half, late, slow, whole):
        for client in (idle, late):
            client.sendall(WHOLE)
            assert answered(client)
        half.sendall(HALF)
        slow.sendall(BODY)
        time.sleep(0.3)  # all of it is there
        whole.sendall(WHOLE)
        process.send_signal(signal.SIGTERM)
        late.sendall(WHOLE)
        time.sleep(0.5)
        slow.sendall(b'{"users":1')  # the rest of what was accepted; it is no JSON, and that is the answer
        assert heard(slow).startswith(b"HTTP/1.1 422")
        assert heard(whole).startswith(b"HTTP/1.1 200")
        assert heard(late).startswith(b"HTTP/1.1 200")
        assert heard(half).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert heard(idle) == b""
    assert process.wait(20) in (0, -signal.SIGTERM)
    assert '"level": "error"' not in log.read_text()


def test_no_more_connections_than_files() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert most_connections(Settings(max_connections=5)) == 5
    assert most_connections(Settings(max_connections=10**9)) == files - SPARE
    assert os.sysconf("SC_OPEN_MAX") == files


def test_three_hundred_slow_clients_for_a_while(skills_file: Path, start_server) -> None:
    url, process, _ = start_server(skills_file, '{"port": 0, "header_timeout": 1, "max_connections": 200}')

    with httpx.Client(timeout=30) as client:
        sizes = []
        for _ in range(5):
            with connections(url, 300) as slow:
                for one in slow:
                    one.sendall(HALF)
                for _ in range(20):
                    assert client.get(url + "/recommend?user=Economist&n=3").status_code == 200
            sizes.append(resident(process))
    assert sizes[-1] < sizes[0] + 20_000_000, sizes
