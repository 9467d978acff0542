"""A Dask cluster of processes on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

from fedbandits.live.operations.local_cluster import reserved_ports


class Process:
    """A scheduler or a worker, killed at the end if not before."""

    def __init__(self, *args: str, path: str = "", ready: str) -> None:
        paths = filter(None, [path, os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dask", *args, "--no-dashboard"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": ":".join(paths), "PYTHONWARNINGS": "ignore"},
        )
        assert self._process.stderr is not None
        log = iter(self._process.stderr)
        found = next((m for line in log if (m := re.search(ready, line))), None)
        assert found is not None, "the process ended before it was ready"
        # A pipe that nobody reads would stop the process in the end.
        self._reader = threading.Thread(target=lambda: [None for _ in log])
        self._reader.start()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


class Cluster:
    """Processes on this machine."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        [port] = stack.enter_context(reserved_ports(1))
        self._port = str(port)
        self.address = f"tcp://127.0.0.1:{self._port}"

    def scheduler(self) -> Process:
        return self._start("scheduler", "--port", self._port, ready=r"Scheduler at: +(\S+)")

    def worker(self, path: str = "") -> Process:
        alone = ("--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
        salted = ("--preload", "tests.conftest")  # as this process is
        return self._start(
            "worker", self.address, *alone, *salted, path=path, ready="Registered to"
        )

    def _start(self, *args: str, path: str = "", ready: str) -> Process:
        process = Process(*args, path=path, ready=ready)
        self._stack.callback(process.kill)
        return process
