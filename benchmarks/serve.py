"""Requests a second and latency of `/recommend`, one worker, on a 20,000-item rank-64 model.

    python benchmarks/serve.py                       10 seconds at 16 connections
    python benchmarks/serve.py --seconds 600 --soak  memory of the server every 10 seconds
    python benchmarks/serve.py --slow 1000 --connections 4 --pace 50   beside clients that never end a request

The server is a process of its own, started by `halfstep.apps.serve.run` with all its defaults; this process is the load
generator. Both are on loopback and share the machine's cores. Every answer is checked: status 200 and ten items.
Bounded in time and in requests. Prints one JSON document at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import halfstep as hs

MAX_REQUESTS = 10_000_000
SERVER = "import sys; from halfstep.apps.serve import run; run(sys.argv[1], port=0, workers=int(sys.argv[2]))"


def make_model(path: Path, users: int, items: int, rank: int) -> None:
    """A fit to random cells with popular and rare items: the cost of an answer does not depend on their meaning."""
    rng = np.random.default_rng(0)
    cells = 40 * users
    columns = (items * rng.random(cells) ** 2).astype(np.int64)
    weights = sp.csr_array((np.ones(cells, np.float32), (rng.integers(0, users, cells), columns)), (users, items))
    hs.WALS(rank=rank, max_iter=1, random_state=0).fit(weights).save(path)


async def client(
    port: int, users: int, until: float, seed: int, out: list[float], errors: list[str], pace: float = 0.0
) -> None:
    """One connection: asks, waits for the whole answer, asks again, at most `pace` times a second (0: at once)."""
    rng = np.random.default_rng(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until and len(out) < MAX_REQUESTS:
        user = int(rng.integers(users))
        started = time.perf_counter()
        writer.write(f"GET /recommend?user={user}&n=10 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])  # type: ignore[index]
        body = await reader.readexactly(length)
        out.append(time.perf_counter() - started)
        if not head.startswith(b"HTTP/1.1 200") or body.count(b'"score"') != 10:
            errors.append((head.split(b"\r\n")[0] + b" " + body[:200]).decode())
        if pace:
            await asyncio.sleep(1 / pace)
    writer.close()


async def slow_client(port: int, until: float, seed: int) -> None:
    """A byte of a header, or of a body, every few seconds; whenever it is sent away it comes back."""
    rng = np.random.default_rng(seed)
    heads = (b"GET /recommend?user=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"")
    body = b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    while time.perf_counter() < until:
        await asyncio.sleep(float(rng.random()))
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write((*heads, body)[seed % 3])
            for _ in range(20):
                await asyncio.sleep(min(5 * float(rng.random()), max(until - time.perf_counter(), 0.0)))
                writer.write(b"x" if seed % 3 != 1 else b"")
                await writer.drain()
                if writer.transport.is_closing() or time.perf_counter() >= until:
                    break
            writer.close()
        except OSError:
            continue


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, which does not depend on who else uses the machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(pid: int, until: float, memory: list[float], every: float) -> None:
    while time.perf_counter() < until:
        memory.append(round(resident(pid), 1))
        await asyncio.sleep(min(every, max(until - time.perf_counter(), 0.0)))


async def load(port: int, pid: int, options: argparse.Namespace) -> dict[str, object]:
    warm: list[float] = []
    errors: list[str] = []
    soon = time.perf_counter() + 1.0
    await asyncio.gather(*(client(port, options.users, soon, k, warm, errors) for k in range(options.connections)))
    times: list[float] = []
    memory: list[float] = []
    used = cpu_seconds(pid)
    started = time.perf_counter()
    until = started + options.seconds
    clients = [
        client(port, options.users, until, 1000 + k, times, errors, options.pace) for k in range(options.connections)
    ]
    clients += [slow_client(port, until, k) for k in range(options.slow)]
    await asyncio.gather(watch(pid, until, memory, 10.0 if options.soak else options.seconds), *clients)
    seconds = time.perf_counter() - started
    ms = 1000 * np.array(times)
    return {
        "requests": len(times),
        "errors": len(errors),
        "first_error": errors[0] if errors else None,
        "seconds": round(seconds, 2),
        "requests_per_second": round(len(times) / seconds),
        "ms": {
            name: round(float(np.percentile(ms, q)), 2)
            for name, q in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100))
        },
        "server_cpu_ms_per_request": round(1000 * (cpu_seconds(pid) - used) / len(times), 3),
        "load_average": os.getloadavg()[0],
        "memory_mb": [*memory, round(resident(pid), 1)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--slow", type=int, default=0, help="clients that never end a request, at most 2000")
    parser.add_argument("--pace", type=float, default=0.0, help="requests a second of a connection; 0: without a pause")
    parser.add_argument("--seconds", type=float, default=10.0, help="at most 3600")
    parser.add_argument("--soak", action="store_true", help="look at memory every 10 seconds")
    options = parser.parse_args()
    options.seconds, options.slow = min(options.seconds, 3600.0), min(options.slow, 2000)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.safetensors"
        make_model(model, options.users, options.items, options.rank)
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            command = [sys.executable, "-c", SERVER, str(model), str(options.workers)]
            server = subprocess.Popen(command, stderr=stream)
        try:
            port = wait_for(server, log)
            result = asyncio.run(load(port, server.pid, options))
        finally:
            server.terminate()
            server.wait(30)
    print(json.dumps({**vars(options), **result, "cores": os.cpu_count(), "machine": platform.processor()}, indent=1))
    return 1 if result["errors"] else 0


def wait_for(server: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once the server has printed it and is ready."""
    for _ in range(600):
        text = log.read_text()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
        if found and '"ready"' in text:
            return int(found[1])
        if server.poll() is not None:
            raise SystemExit(f"the server stopped: {text}")
        time.sleep(0.1)
    raise SystemExit(f"the server is not ready after a minute: {log.read_text()}")


if __name__ == "__main__":
    sys.exit(main())
