"""Trains the shapes model on one device, in runs that end on time and can be resumed.

Each run reads ``--checkpoint`` if it exists, trains until ``--max-seconds`` after the process
started, and writes the checkpoint again. The learning rate follows the share of
``--total-seconds`` spent in all runs so far, so a chain of runs covers one schedule.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from deform_models.shapes.augment import augment
from deform_models.shapes.checkpoint import (
    AveragedWeights,
    Progress,
    load_checkpoint,
    load_progress,
    save_checkpoint,
)
from deform_models.shapes.losses import make_targets, set_loss
from deform_models.shapes.model import PICTURE_SIZE, build_model, export_model, load_model
from deform_models.shapes.pool import CHUNK, ScenePool
from deform_models.shapes.scenes import TRAINING_SEED

WARMUP_STEPS = 400
WEIGHT_DECAY = 0.05
AVERAGE_DECAY = 0.999
CLIP_NORM = 5.0
CHECKPOINT_EVERY_S = 150.0
LOG_EVERY_S = 10.0


@dataclass(frozen=True)
class Options:
    """What the command line decides; times in seconds since the process started."""

    checkpoint: Path
    export: Path | None
    seed: int
    device: torch.device
    max_seconds: float
    total_seconds: float
    reserve_seconds: float
    max_steps: int
    batch: int
    pool: int
    start_scenes: int
    workers: int
    learning_rate: float
    evaluate: int
    compile: bool


def learning_rate(share: float, step: int, peak: float) -> float:
    """A linear warm-up over steps times half a cosine over the schedule's ``share`` 0 … 1."""
    warmup = min(1.0, (step + 1) / WARMUP_STEPS)
    return peak * warmup * (0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * min(1.0, share))))


def build_optimizer(model: nn.Module, peak: float) -> torch.optim.AdamW:
    """AdamW: no decay on norms, biases and embeddings; sampling offsets learn ten times slower.

    Each group carries its ``peak`` learning rate.
    """
    decayed, plain, offsets = [], [], []
    for name, parameter in model.named_parameters():
        if "sampling_offsets" in name:
            offsets.append(parameter)
        elif parameter.dim() < 2 or "embed" in name.rsplit(".", 2)[-2] or "level_embed" in name:
            plain.append(parameter)
        else:
            decayed.append(parameter)
    groups = [
        {"params": decayed, "weight_decay": WEIGHT_DECAY, "peak": peak},
        {"params": plain, "weight_decay": 0.0, "peak": peak},
        {"params": offsets, "weight_decay": 0.0, "peak": 0.1 * peak},
    ]
    on_cuda = next(model.parameters()).is_cuda
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.98), fused=on_cuda)


def _float_features(_module: nn.Module, _inputs: object, output: object) -> object:
    # Position encodings take their type from the backbone's features: in bfloat16 they would be
    # coarser than those seen in use.
    output.feature_maps = tuple(feature.float() for feature in output.feature_maps)
    return output


class Trainer:
    """The live training state: network, average, optimizer, counters. One thread."""

    def __init__(self, options: Options) -> None:
        """Builds the state afresh or from the checkpoint that ``options`` name."""
        self.options = options
        model = build_model(options.seed).to(options.device, memory_format=torch.channels_last)
        self.model = model.train()
        model.model.pixel_level_module.encoder.register_forward_hook(_float_features)
        self.average = AveragedWeights(model)
        self.optimizer = build_optimizer(model, options.learning_rate)
        self.progress = Progress(next_scene_seed=TRAINING_SEED)
        if load_progress(options.checkpoint) is not None:
            self.progress = load_checkpoint(options.checkpoint, model, self.average, self.optimizer)
        self.generator = torch.Generator(options.device)
        self._forward = torch.compile(model) if options.compile else model

    def loss(
        self, images: Tensor, maps: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and its parts on normalised ``images`` ``[B, 3, S, S]``, ``maps`` ``[B, S, S]``
        uint8 and ``labels`` ``[B, N]``."""
        on_cuda = images.is_cuda
        with torch.autocast(images.device.type, torch.bfloat16, enabled=on_cuda):
            output = self._forward(pixel_values=images, output_auxiliary_logits=True)
        layers = [*output.auxiliary_logits, output]
        masks = torch.stack([layer["masks_queries_logits"] for layer in layers])
        classes = torch.stack([layer["class_queries_logits"] for layer in layers])
        return set_loss(classes, masks, make_targets(maps, labels, tuple(masks.shape[-2:])))

    def step(self, pool: ScenePool, share: float) -> Tensor:
        """One optimizer step; returns (class, mask, dice) losses ``[3]`` on the device."""
        options, progress = self.options, self.progress
        self.generator.manual_seed(options.seed * 1_000_003 + progress.step)
        index = torch.randint(
            pool.filled, (options.batch,), generator=self.generator, device=options.device
        )
        images, maps, labels = pool.batch(index)
        images, maps = augment(images, maps, self.generator)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(share, progress.step, group["peak"])
        loss, parts = self.loss(images, maps, labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        if self.optimizer.defaults["fused"]:
            # The fused step leaves weights alone where this is 1, without asking the host.
            self.optimizer.found_inf = (~norm.isfinite()).float()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(min(AVERAGE_DECAY, (1 + progress.step) / (10 + progress.step)))
        progress.step += 1
        progress.pictures += options.batch
        return torch.stack([parts["class"], parts["mask"], parts["dice"]])

    def save(self, pool: ScenePool, spent_seconds: float) -> None:
        """Writes the checkpoint, with the schedule charged up to ``spent_seconds``."""
        self.progress.spent_seconds = spent_seconds
        self.progress.next_scene_seed = pool.next_seed
        save_checkpoint(
            self.options.checkpoint, self.model, self.average, self.optimizer, self.progress
        )

    def averaged_state(self) -> dict[str, Tensor]:
        """The state dict with averaged weights, on the CPU."""
        state = {**self.model.state_dict(), **self.average.values}
        return {name: value.detach().cpu().contiguous() for name, value in state.items()}


def train(options: Options, started: float) -> Trainer:
    """One run: trains until time or steps are up and saves the checkpoint.

    ``started`` is the monotonic time at which the process started.
    """
    earlier = load_progress(options.checkpoint) or Progress(next_scene_seed=TRAINING_SEED)
    size = (PICTURE_SIZE, PICTURE_SIZE)
    pool = ScenePool(options.pool, size, earlier.next_scene_seed)
    pool.fork(options.workers)  # before CUDA is touched
    try:
        return _train(options, started, pool, earlier)
    finally:
        pool.close()


def _train(options: Options, started: float, pool: ScenePool, earlier: Progress) -> Trainer:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(options)
    pool.attach(options.device)
    if options.workers:
        while pool.filled < options.start_scenes:
            pool.refresh(timeout_s=1.0)
    else:
        pool.draw_here(options.start_scenes)

    count = sum(p.numel() for p in trainer.model.parameters())
    print(
        f"{count:,} parameters; step {earlier.step}, schedule {earlier.spent_seconds:.0f} of "
        f"{options.total_seconds:.0f} s spent; {pool.filled} scenes after "
        f"{time.monotonic() - started:.1f} s",
        flush=True,
    )
    begun = time.monotonic()
    deadline = started + options.max_seconds - options.reserve_seconds
    # The set-up and the end of a run cost no schedule: its training time alone is stretched
    # over the run's share of the whole.
    whole = max(deadline - begun, 1e-3)
    saved = logged = begun
    logged_step, totals = trainer.progress.step, torch.zeros(3, device=options.device)
    last_step = trainer.progress.step + options.max_steps
    while trainer.progress.step < last_step:
        now = time.monotonic()
        spent = earlier.spent_seconds + options.max_seconds * min(1.0, (now - begun) / whole)
        if now >= deadline:
            break
        if now - saved >= CHECKPOINT_EVERY_S:
            trainer.save(pool, spent)
            saved = time.monotonic()
        if now - logged >= LOG_EVERY_S and trainer.progress.step > logged_step:
            steps = trainer.progress.step - logged_step
            parts = (totals / steps).tolist()
            if not all(map(math.isfinite, parts)):
                raise RuntimeError("the loss is no longer finite; resume from the checkpoint")
            pace = steps / (now - logged)
            peak = trainer.optimizer.param_groups[0]["lr"]
            print(
                f"step {trainer.progress.step:6d}  {pace * options.batch:6.0f} pictures/s  "
                f"class {parts[0]:.4f}  mask {parts[1]:.4f}  dice {parts[2]:.4f}  "
                f"lr {peak:.2e}  {pool.drawn} scenes drawn  {deadline - now:4.0f} s to go",
                flush=True,
            )
            totals.zero_()
            logged, logged_step = now, trainer.progress.step
        pool.refresh()
        totals += trainer.step(pool, min(1.0, spent / options.total_seconds))
    trainer.save(pool, spent)
    if options.device.type == "cuda":
        gigabytes = torch.cuda.max_memory_allocated() / 2**30
        print(f"peak GPU memory {gigabytes:.1f} GiB", flush=True)
    return trainer


def _parse() -> Options:
    parser = argparse.ArgumentParser(description="Train the shapes model.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="read and written")
    parser.add_argument("--export", type=Path, help="write the averaged model here at the end")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max-seconds", type=float, default=540.0)
    parser.add_argument("--total-seconds", type=float, default=1080.0)
    parser.add_argument(
        "--reserve-seconds", type=float, default=25.0, help="kept for saving and scoring"
    )
    parser.add_argument("--max-steps", type=int, default=10**9)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--pool", type=int, default=24_576, help="scenes held on the device")
    parser.add_argument("--start-scenes", type=int, default=8192, help="drawn before step one")
    parser.add_argument("--workers", type=int, default=13, help="0: never refresh the pool")
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--evaluate", type=int, default=200, help="held-out scenes to score")
    parser.add_argument("--compile", action="store_true")
    arguments = vars(parser.parse_args())
    arguments["device"] = torch.device(arguments["device"])
    for name in ("pool", "start_scenes"):
        if arguments[name] % CHUNK or arguments[name] <= 0:
            parser.error(f"--{name.replace('_', '-')} must be a positive multiple of {CHUNK}")
    if arguments["start_scenes"] > arguments["pool"]:
        parser.error("--start-scenes must not exceed --pool")
    return Options(**arguments)


def _process_start() -> float:
    """The monotonic time at which this process started, imports included; now if unknown."""
    now = time.monotonic()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        born = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - born
    except (OSError, ValueError, IndexError):
        return now
    return now - age if 0 <= age < 3600 else now


def main() -> None:
    """Command line entry point."""
    started = _process_start()
    options = _parse()
    trainer = train(options, started)
    folder = options.export or options.checkpoint.with_name(options.checkpoint.name + ".model")
    export_model(trainer.averaged_state(), folder)
    if options.evaluate:
        from deform_models.shapes.evaluate import format_table, quick_quality

        model, processor = load_model(folder, options.device)
        scores = quick_quality(model, processor, options.evaluate)
        print(format_table(scores), flush=True)
        text = json.dumps({"scenes": options.evaluate, "scores": scores}, indent=1)
        (folder / "quick_quality.json").write_text(text + "\n")
    print(f"done after {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
