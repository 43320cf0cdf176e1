"""Steps of a long job, each with its number and the time that it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Steps:
    """Prints `[3/7] compile … 93.1 s` for each step, and a sign of life while one goes on.

    On a terminal the running step's line is rewritten every second; elsewhere a line of its own
    is added every `heartbeat_s` seconds.
    """

    def __init__(self, total: int, stream: TextIO | None = None, heartbeat_s: float = 15) -> None:
        """`total` steps are going to come."""
        self._total = total
        self._number = 0
        self._stream = stream or sys.stderr
        self._heartbeat_s = heartbeat_s
        self._note = ""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times what runs inside; an exception leaves the line unfinished and goes on."""
        self._number += 1
        self._note = ""
        head = f"[{self._number}/{self._total}] {name}"
        began = time.monotonic()
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(head, began, done), daemon=True)
        ticker.start()
        try:
            yield
        except BaseException:
            self._finish(done, ticker)
            self._print(f"{head} … failed after {time.monotonic() - began:.1f} s")
            raise
        self._finish(done, ticker)
        note = f" ({self._note})" if self._note else ""
        self._print(f"{head} … {time.monotonic() - began:.1f} s{note}")

    def skip(self, count: int, text: str) -> None:
        """Passes over the next `count` steps; `text` says why."""
        first, self._number = self._number + 1, self._number + count
        self._print(f"[{first}-{self._number}/{self._total}] {text}")

    def note(self, text: str) -> None:
        """What the running step's line says in brackets when it has ended."""
        self._note = text

    def _tick(self, head: str, began: float, done: threading.Event) -> None:
        terminal = self._stream.isatty()
        while not done.wait(1 if terminal else self._heartbeat_s):
            seconds = time.monotonic() - began
            if terminal:
                self._stream.write(f"\r\033[K{head} … {seconds:.0f} s")
                self._stream.flush()
            else:
                self._print(f"{head} … {seconds:.0f} s so far")

    def _finish(self, done: threading.Event, ticker: threading.Thread) -> None:
        done.set()
        ticker.join()
        if self._stream.isatty():
            self._stream.write("\r\033[K")

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
