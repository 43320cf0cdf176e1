"""Training state in a folder of small files, so that a run can go on where another one ended.

``checkpoint.json`` holds the counters, ``state-K.safetensors`` the tensors: weights in float32,
averaged weights in float16, Adam's moments in bfloat16. Saving rounds the live state in the same
way, so going on in the process and resuming from the folder are the same.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

SHARD_BYTES = 14 << 20


@dataclass
class Progress:
    """How far training has come: optimizer steps, seconds of the schedule spent, pictures seen
    and the first scene seed not yet used."""

    step: int = 0
    spent_seconds: float = 0.0
    pictures: int = 0
    next_scene_seed: int = 0


class AveragedWeights:
    """Exponential moving average of a model's floating-point state, batch norm's included."""

    def __init__(self, model: nn.Module) -> None:
        """Starts from ``model``'s present state, which it goes on reading."""
        self._live = {k: v for k, v in model.state_dict().items() if v.is_floating_point()}
        self.values = {k: v.detach().float().clone() for k, v in self._live.items()}

    @torch.no_grad()
    def update(self, decay: float) -> None:
        """Moves each average towards the live value by 1 − ``decay``."""
        torch._foreach_lerp_(list(self.values.values()), list(self._live.values()), 1 - decay)


def _tensors(
    model: nn.Module, average: AveragedWeights, optimizer: torch.optim.AdamW
) -> list[tuple[str, Tensor, torch.dtype]]:
    """Every tensor of the state, with its name and its type on disk."""
    rows = [(f"model.{k}", v, v.dtype) for k, v in model.state_dict().items()]
    rows += [(f"average.{k}", v, torch.float16) for k, v in average.values.items()]
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in state:
                rows.append((f"{moment}.{name}", state[moment], torch.bfloat16))
    return rows


@torch.no_grad()
def save_checkpoint(
    folder: Path,
    model: nn.Module,
    average: AveragedWeights,
    optimizer: torch.optim.AdamW,
    progress: Progress,
) -> None:
    """Replaces ``folder`` by the present state; a crash leaves the old or the new one whole."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor, dtype in _tensors(model, average, optimizer):
        stored = tensor.detach().to(dtype)
        tensor.copy_(stored)
        stored = stored.cpu().contiguous()
        if size + stored.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = stored
        size += stored.nbytes
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for number, shard in enumerate(shards):
        save_file(shard, fresh / f"state-{number}.safetensors")
    text = json.dumps({**asdict(progress), "shards": len(shards)}, indent=1)
    (fresh / "checkpoint.json").write_text(text + "\n")
    if folder.exists():
        stale = folder.with_name(folder.name + ".old")
        shutil.rmtree(stale, ignore_errors=True)
        os.replace(folder, stale)
        os.replace(fresh, folder)
        shutil.rmtree(stale)
    else:
        os.replace(fresh, folder)


def load_progress(folder: Path) -> Progress | None:
    """The counters in ``folder``, or None if it holds no checkpoint."""
    path = folder / "checkpoint.json"
    if not path.is_file():
        return None
    fields = json.loads(path.read_text())
    fields.pop("shards")
    return Progress(**fields)


@torch.no_grad()
def load_checkpoint(
    folder: Path, model: nn.Module, average: AveragedWeights, optimizer: torch.optim.AdamW
) -> Progress:
    """Restores the state saved in ``folder`` in place.

    Raises FileNotFoundError if there is none and KeyError, naming a tensor, if the checkpoint is
    another architecture's or lacks a file.
    """
    progress = load_progress(folder)
    if progress is None:
        raise FileNotFoundError("no checkpoint in the folder")
    stored: dict[str, Tensor] = {}
    for path in sorted(folder.glob("state-*.safetensors")):
        stored.update(load_file(path))
    fused = bool(optimizer.defaults["fused"])
    for name, parameter in model.named_parameters():
        if f"exp_avg.{name}" in stored:
            counter = torch.tensor(float(progress.step))
            optimizer.state[parameter] = {
                "step": counter.to(parameter.device) if fused else counter,
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    live = {name: tensor for name, tensor, _ in _tensors(model, average, optimizer)}
    for name in sorted(live.keys() ^ stored.keys()):
        raise KeyError(f"{name} is {'missing from' if name in live else 'only in'} the checkpoint")
    for name, tensor in live.items():
        tensor.copy_(stored[name])
    return progress
