"""Real server processes on loopback: start, stop, several workers, reload under load, what is printed."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from halfstep import WALS
from halfstep.apps.serve import run

from ..counters import counters
from ..servers import RUN

pytestmark = pytest.mark.heavy


def test_a_port_in_use_is_one_line(skills_file: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} on 127.0.0.1 is in use; stop what listens there"):
            run(skills_file, port=port)


def test_impossible_addresses_and_files(skills_file: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot listen on 203\.0\.113\.1 port 0"):
        run(skills_file, host="203.0.113.1", port=0)
    with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1 port 70000"):
        run(skills_file, port=70000)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        run(tmp_path / "none.safetensors")


@pytest.mark.heavy
def test_several_workers_share_the_model_and_their_counters(skills_file: Path, start_server) -> None:
    url, process, _ = start_server(skills_file, '{"port": 0, "workers": 2}')
    for _ in range(20):
        httpx.get(url + "/recommend?user=Economist").raise_for_status()  # a connection each
    text = httpx.get(url + "/metrics").text
    assert counters(text)["halfstep_requests_total /recommend 200"] == 20
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (0, -signal.SIGTERM)


def not_answered_within(seconds: float, url: str) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            httpx.get(url, timeout=seconds)
        except httpx.TransportError:
            return True
    return False


def test_workers_end_with_the_process_that_started_them(skills_file: Path, start_server) -> None:
    """They went on answering, and kept the port from the next server."""
    url, process, log = start_server(skills_file, '{"port": 0, "workers": 2}')
    assert httpx.get(url + "/health").status_code == 200
    process.kill()
    process.wait(20)
    assert not_answered_within(20, url + "/health")
    restarted, _, _ = start_server(skills_file, f'{{"port": {url.rsplit(":", 1)[1]}}}')
    assert httpx.get(restarted + "/health").status_code == 200
    assert "Traceback" not in log.read_text()


def test_a_reload_drops_no_request(skills: WALS, tmp_path: Path, start_server) -> None:
    path = tmp_path / "model.safetensors"
    skills.save(path)
    url, _, log = start_server(path, '{"port": 0, "watch_seconds": 0.1}')

    async def ask(client: httpx.AsyncClient, until: float) -> list[int]:
        statuses = []
        while asyncio.get_running_loop().time() < until:
            statuses.append((await client.get(url + "/recommend?user=Economist&n=3")).status_code)
        return statuses

    async def all_at_once() -> list[list[int]]:
        until = asyncio.get_running_loop().time() + 1.5
        async with httpx.AsyncClient() as client:

            async def replace() -> list[int]:
                for _ in range(3):
                    await asyncio.sleep(0.4)
                    skills.save(path)
                return []

            return await asyncio.gather(*(ask(client, until) for _ in range(4)), replace())

    statuses = {status for part in asyncio.run(all_at_once()) for status in part}
    assert statuses == {200}
    assert log.read_text().count("model reloaded") >= 2


def test_an_open_address_without_a_key_is_warned_about(skills_file: Path) -> None:
    command = [sys.executable, "-c", RUN, str(skills_file), '{"port": 0, "host": "0.0.0.0"}']
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    lines = [process.stderr.readline(), process.stderr.readline()]
    process.terminate()
    process.communicate(timeout=20)
    assert lines[0].startswith("halfstep serves ")
    assert lines[1] == "warning: everybody who can reach this address can use it; give an api_key\n"


def test_the_life_of_one_server(skills: WALS, skills_file: Path, start_server) -> None:
    url, process, log = start_server(skills_file, '{"port": 0, "timeout": 3}')
    assert httpx.get(url + "/ready").json() == {"status": "ready"}
    users = skills.user_ids_.tolist()

    async def all_at_once() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=30) as client:
            asked = [client.get(url + "/recommend", params={"user": u, "n": 1 + k % 3}) for k, u in enumerate(users)]
            return await asyncio.gather(*asked)

    for k, (user, answer) in enumerate(zip(users, asyncio.run(all_at_once()), strict=True)):
        expected = skills.recommend(user, 1 + k % 3)  # asked for together, they are scored together
        assert [entry["id"] for entry in answer.json()["items"]] == expected.ids.tolist()

    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=30) as slow:
        slow.sendall(b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")

    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert any(line["event"] == "stopped" for line in lines)
    assert not any(line["level"] == "error" for line in lines)
