"""Starts a real deform-server on free ports, waits until it is ready, and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DEFORM_BUILD_DIR", ROOT / "build"))
REPOSITORY = Path(os.environ.get("DEFORM_TEST_REPOSITORY", ROOT / "model_repository"))
PROTOS = (
    "deform/segmentation/v1/segmentation.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
)


def generate_stubs() -> None:
    """Puts grpcio stubs of the project's protos on sys.path, made by grpc_tools."""
    if any("deform_stubs" in entry for entry in sys.path):
        return
    folder = tempfile.mkdtemp(prefix="deform_stubs_")
    from grpc_tools import protoc

    well_known = str(Path(protoc.__file__).parent / "_proto")
    present = [p for p in PROTOS if (ROOT / "proto" / p).exists()]
    code = protoc.main(
        ["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}"]
        + [f"--python_out={folder}", f"--grpc_python_out={folder}", *present]
    )
    assert code == 0, "protoc failed"
    sys.path.insert(0, folder)


class ServerProcess:
    """A running deform-server; a context manager. Logs are kept in `log` (a list of lines)."""

    def __init__(
        self, *flags: str, repository: Path = REPOSITORY, ready: bool = True, timeout: float = 300
    ) -> None:
        """Starts the server; with `ready`, waits until /readyz says so (seconds: `timeout`)."""
        self._folder = tempfile.TemporaryDirectory(prefix="deform_server_")
        ports_file = Path(self._folder.name) / "ports.json"
        self.log: list[str] = []
        self.process = subprocess.Popen(
            [
                str(BUILD / "bin/deform-server"),
                f"--model_repository={repository}",
                "--grpc_address=127.0.0.1:0",
                "--admin_address=127.0.0.1:0",
                f"--ports_file={ports_file}",
                *(
                    []
                    if any(f.startswith("--drain_delay") for f in flags)
                    else ["--drain_delay=0s"]
                ),
                *flags,
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            self._wait_for_line(lambda _: ports_file.exists(), timeout)
            ports = json.loads(ports_file.read_text())
            self.grpc_address = f"127.0.0.1:{ports['grpc_port']}"
            self.admin_address = f"127.0.0.1:{ports['admin_port']}"
            if ready:
                self._wait_for_line(lambda _: self.is_ready(), timeout)
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _wait_for_line(self, done: object, timeout: float) -> None:
        """Looks at `done` again whenever the server logs something, and once in a while."""
        import time

        end = time.monotonic() + timeout
        with self._changed:
            while not done(None):  # type: ignore[operator]
                code = self.process.poll()
                assert code is None, f"server ended with {code}:\n" + "\n".join(self.log[-30:])
                assert time.monotonic() < end, "server not up:\n" + "\n".join(self.log[-30:])
                self._changed.wait(0.1)

    def get(self, path: str) -> tuple[int, str]:
        """GET on the admin port: (status, body)."""
        try:
            with urllib.request.urlopen(f"http://{self.admin_address}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self) -> bool:
        """Whether /readyz answers 200."""
        return self.get("/readyz")[0] == 200

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, keyed by its text up to the value."""
        samples = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                key, _, value = line.rpartition(" ")
                samples[key] = float(value)
        return samples

    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        """Sends `how` unless it has ended, waits, and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def __enter__(self) -> ServerProcess:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops it, hard if it doesn't stop by itself."""
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self._folder.cleanup()
