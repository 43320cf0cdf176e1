"""Scenes made by worker processes and kept as bytes on the training device.

Workers are forked before CUDA starts and draw fresh scenes into shared memory for as long as
training lasts, so that a picture is seen a few times at most.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
from collections import deque
from multiprocessing.connection import Connection, wait

import cv2
import numpy as np
import torch
from torch import Tensor

from deform_models.shapes.scenes import MAX_SEGMENTS, generate_scene

CHUNK = 32
"""Scenes that a worker draws for each order."""
SLOTS_PER_WORKER = 3


class _Slot:
    """A chunk of scenes in memory that parent and worker share."""

    def __init__(self, size: tuple[int, int]) -> None:
        pixels = CHUNK * size[0] * size[1]
        self._memory = mmap.mmap(-1, pixels * 4 + CHUNK * MAX_SEGMENTS)
        flat = np.frombuffer(self._memory, np.uint8)
        self.flat = flat
        self.images = flat[: 3 * pixels].reshape(CHUNK, *size, 3)
        self.maps = flat[3 * pixels : 4 * pixels].reshape(CHUNK, *size)
        self.labels = flat[4 * pixels :].view(np.int8).reshape(CHUNK, MAX_SEGMENTS)

    def draw(self, first_seed: int, size: tuple[int, int]) -> None:
        """Fills the slot with the scenes of CHUNK consecutive seeds."""
        self.labels[:] = -1
        for i in range(CHUNK):
            scene = generate_scene(first_seed + i, size)
            self.images[i], self.maps[i] = scene.image, scene.segment_map
            self.labels[i, : len(scene.labels)] = scene.labels


def _work(orders: Connection, slots: list[_Slot], size: tuple[int, int], parent: int) -> None:
    os.nice(5)
    while True:
        while not orders.poll(5.0):
            if os.getppid() != parent:
                return
        order = orders.recv()
        if order is None:
            return
        slot, first_seed = order
        slots[slot].draw(first_seed, size)
        orders.send(slot)


class ScenePool:
    """A ring of ``capacity`` scenes on ``device``, refreshed in the background.

    Used from one thread. Construct it, ``fork`` the workers, and only then touch CUDA and call
    ``attach``. ``next_seed`` is the first seed not yet ordered, for a later run to go on with.
    """

    def __init__(self, capacity: int, size: tuple[int, int], first_seed: int) -> None:
        """``capacity`` must be a multiple of CHUNK (else ValueError), ``size`` (height, width)."""
        if capacity % CHUNK:
            raise ValueError(f"capacity must be a multiple of {CHUNK}, got {capacity}")
        self.capacity, self.filled, self.next_seed = capacity, 0, first_seed
        self.drawn = 0
        self._size, self._position = size, 0
        self._workers: list[multiprocessing.process.BaseProcess] = []
        self._connections: list[Connection] = []
        self._slots: list[list[_Slot]] = []
        self._pinned: list[np.ndarray] = []
        self._uploading: deque[tuple[int, int, torch.cuda.Event]] = deque()

    def fork(self, workers: int) -> None:
        """Starts the worker processes. CUDA must not be initialised yet.

        OpenCV runs single-threaded in this process from here on.
        """
        # A child can't use the threads of its parent's OpenCV, and would wait for them for ever.
        cv2.setNumThreads(1)
        context = multiprocessing.get_context("fork")
        for _ in range(workers):
            slots = [_Slot(self._size) for _ in range(SLOTS_PER_WORKER)]
            ours, theirs = context.Pipe()
            arguments = (theirs, slots, self._size, os.getpid())
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._workers.append(process)
            self._connections.append(ours)
            self._slots.append(slots)
        for worker in range(workers):
            for slot in range(SLOTS_PER_WORKER):
                self._order(worker, slot)

    def _order(self, worker: int, slot: int) -> None:
        self._connections[worker].send((slot, self.next_seed))
        self.next_seed += CHUNK

    def attach(self, device: torch.device) -> None:
        """Allocates the ring on ``device`` and pins the shared memory for CUDA."""
        height, width = self._size
        shape = (self.capacity, height, width)
        self._images = torch.zeros((*shape, 3), dtype=torch.uint8, device=device)
        self._maps = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._labels = torch.full(
            (self.capacity, MAX_SEGMENTS), -1, dtype=torch.int8, device=device
        )
        if device.type == "cuda":
            for slot in (s for slots in self._slots for s in slots):
                flat = slot.flat
                torch.cuda.cudart().cudaHostRegister(flat.ctypes.data, flat.nbytes, 0)
                self._pinned.append(flat)

    def _store(self, slot: _Slot) -> None:
        target = slice(self._position, self._position + CHUNK)
        self._images[target].copy_(torch.from_numpy(slot.images), non_blocking=True)
        self._maps[target].copy_(torch.from_numpy(slot.maps), non_blocking=True)
        self._labels[target].copy_(torch.from_numpy(slot.labels), non_blocking=True)
        self._position = (self._position + CHUNK) % self.capacity
        self.filled = min(self.capacity, self.filled + CHUNK)
        self.drawn += CHUNK

    def draw_here(self, count: int) -> None:
        """Draws ``count`` scenes, a multiple of CHUNK, in this process."""
        slot = _Slot(self._size)
        for _ in range(count // CHUNK):
            slot.draw(self.next_seed, self._size)
            self.next_seed += CHUNK
            self._store(slot)
            if self._images.is_cuda:
                torch.cuda.synchronize()

    def refresh(self, timeout_s: float = 0.0) -> None:
        """Takes over the chunks that are ready, waiting at most ``timeout_s`` for the first.

        Copies run on the current CUDA stream, so they are ordered with the batches around them.
        """
        while self._uploading and self._uploading[0][2].query():
            worker, slot, _ = self._uploading.popleft()
            self._order(worker, slot)
        for connection in wait(self._connections, timeout_s) if self._connections else []:
            worker = self._connections.index(connection)
            slot = connection.recv()
            self._store(self._slots[worker][slot])
            if self._images.is_cuda:
                event = torch.cuda.Event()
                event.record()
                self._uploading.append((worker, slot, event))
            else:
                self._order(worker, slot)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The scenes at ``index`` ``[B]`` int64: images ``[B, 3, H, W]`` uint8 (channels last),
        segment maps ``[B, H, W]`` uint8, labels ``[B, MAX_SEGMENTS]`` int64, −1 for none."""
        images = self._images.index_select(0, index).permute(0, 3, 1, 2)
        maps = self._maps.index_select(0, index)
        return images, maps, self._labels.index_select(0, index).long()

    def close(self) -> None:
        """Ends the workers and lets go of the pinned memory.

        Memory freed while CUDA still holds it as pinned makes later copies from its addresses fail.
        """
        if self._pinned:
            torch.cuda.synchronize()
            for flat in self._pinned:
                torch.cuda.cudart().cudaHostUnregister(flat.ctypes.data)
            self._pinned.clear()
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            process.join()
