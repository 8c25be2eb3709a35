"""Real server processes on loopback, each on a free port."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

RUN = "import json, sys; from halfstep.apps.serve import run; run(sys.argv[1], **json.loads(sys.argv[2]))"
QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Servers:
    """Starts servers, their logs in `folder`."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, model: Path, options: str = '{"port": 0}') -> tuple[str, subprocess.Popen[bytes], Path]:
        """Its address, the process and its log, once it is ready."""
        log = self.folder / f"log{len(self.started)}"
        with log.open("wb") as stream:
            command = [sys.executable, "-c", RUN, str(model), options]
            process = subprocess.Popen(command, stderr=stream, env=os.environ | QUIET)
        self.started.append(process)
        for _ in range(900):
            text = log.read_text()
            found = re.search(r"at (http://\S+)", text)
            if found and '"event": "ready"' in text:
                return found[1], process, log
            assert process.poll() is None, text
            time.sleep(0.1)
        raise AssertionError(f"the server is not ready: {log.read_text()}")


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Servers that end with the block."""
    running = Servers(folder)
    try:
        yield running
    finally:
        for process in running.started:
            process.terminate()
        for process in running.started:
            process.wait(20)
