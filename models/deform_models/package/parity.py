"""Is the packaged network the one in the checkpoint? Measured on every build.

The compiled artifact, in a process of its own, against the untouched Hugging Face model in
float32 (deformable attention through grid_sample) on the same batches. The two do the same sums
in another order, so outputs differ by rounding. A network that compares numbers with a threshold
inside (Mask2Former cuts attention masks at probability 0.5) turns rounding into a jump when a
number lies next to it; then the untouched model itself is the judge: a difference beyond the
tolerance is accepted only where disturbing its own decisions by rounding-sized noise moves its
outputs as far.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from deform_models.errors import PackagingError
from deform_models.package import operators
from deform_models.package.pictures import network_inputs
from deform_models.package.target import Target
from deform_models.recipe import Recipe

SEED = 20_240
TRIALS = 6
# Of each output's largest value, at least 1: by how much rounding alone may move it.
TOLERANCE = {
    ("cpu", "float32"): 1e-4,
    ("cuda", "float32"): 5e-4,
    ("cuda", "float16"): 2e-2,
    ("cuda", "bfloat16"): 1e-1,
}

Outputs = dict[int, tuple[Tensor, ...]]
"""Batch size to the outputs of that batch, the first so many pictures."""


def measure_parity(
    recipe: Recipe,
    model: nn.Module,
    config: Any,
    artifact: Path,
    target: Target,
    preprocess: dict[str, Any],
    max_batch: int,
) -> dict[str, Any]:
    """The parity entry of package.json for `artifact`; PackagingError if it is out of tolerance.

    `model` is the untouched one; it is left on the target's device.
    """
    batches = sorted({1, min(2, max_batch), max_batch})
    pictures = network_inputs(preprocess, max_batch, SEED)
    packaged = run_packaged(artifact, pictures, batches)
    pictures = tuple(tensor.to(target.device) for tensor in pictures)
    reference = run_reference(recipe, model.to(target.device), pictures, batches)
    if recipe.query_order_is_free(config):
        packaged = {b: _in_order_of(packaged[b], reference[b]) for b in batches}
    tolerance = TOLERANCE[(target.device, target.dtype)]
    report = _compare(recipe, packaged, reference, tolerance)
    beyond = report.pop("beyond")
    if beyond:
        report["threshold_sensitive"] = _explain(
            recipe, model, pictures, packaged, reference, beyond, tolerance
        )
    return {"artifact": artifact.name, "batch": batches, "seed": SEED, **report}


def run_packaged(artifact: Path, pictures: tuple[Tensor, ...], batches: list[int]) -> Outputs:
    """The artifact's outputs; PackagingError, naming the batch, if its process breaks."""
    with tempfile.TemporaryDirectory() as folder:
        inputs_file, outputs_file = Path(folder) / "inputs", Path(folder) / "outputs"
        save_file({str(place): tensor for place, tensor in enumerate(pictures)}, inputs_file)
        arguments = [str(artifact), str(inputs_file), str(outputs_file), *map(str, batches)]
        ran = subprocess.run(
            [sys.executable, "-m", "deform_models.package.run_artifact", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            at = ran.stdout.strip().splitlines()
            where = f"at {at[-1]}" if at else "when it was loaded"
            how = f"signal {-ran.returncode}" if ran.returncode < 0 else ran.stderr.strip()[-1500:]
            raise PackagingError(f"parity: the artifact failed {where}: {how}")
        results: dict[int, dict[int, Tensor]] = {}
        for key, tensor in load_file(outputs_file).items():
            batch, place = key.split(".")
            results.setdefault(int(batch), {})[int(place)] = tensor
    return {b: tuple(parts[p] for p in sorted(parts)) for b, parts in results.items()}


def run_reference(
    recipe: Recipe, model: nn.Module, pictures: tuple[Tensor, ...], batches: list[int]
) -> Outputs:
    """The untouched model's outputs in full float32, on the device where it and they are."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    network = recipe.network(model)
    outputs = {}
    for batch in batches:
        with torch.inference_mode(), operators.no_public_operators():
            results = network(*(tensor[:batch] for tensor in pictures))
        outputs[batch] = tuple(result.cpu() for result in results)
    return outputs


def _bound(reference: Tensor, tolerance: float) -> float:
    return tolerance * max(1.0, float(reference.abs().amax()))


def _compare(
    recipe: Recipe, packaged: Outputs, reference: Outputs, tolerance: float
) -> dict[str, Any]:
    largest: dict[str, float] = {}
    quantiles: dict[str, dict[str, float]] = {}
    beyond: set[tuple[int, int]] = set()
    for place, name in enumerate(recipe.output_names):
        differences = []
        for batch, expected in reference.items():
            found, wanted = packaged[batch][place], expected[place]
            if found.shape != wanted.shape or not found.isfinite().all():
                raise PackagingError(f"parity: {name} at batch {batch} isn't finite or misshapen")
            difference = (found - wanted).abs()
            for picture in range(batch):
                if float(difference[picture].amax()) > _bound(wanted[picture], tolerance):
                    beyond.add((batch, picture))
            differences.append(difference.flatten())
        together = torch.cat(differences).sort().values
        largest[name] = float(together[-1])
        quantiles[name] = {
            f"p{share}": float(together[min(len(together) - 1, int(len(together) * share / 100))])
            for share in (50, 99, 99.9)
        }
    return {
        "pictures": sum(reference),
        "tolerance": tolerance,
        "max_abs_difference": largest,
        "quantiles": quantiles,
        "spread": _spread(recipe, reference),
        "threshold_sensitive": 0,
        "beyond": sorted(beyond),
    }


def _spread(recipe: Recipe, reference: Outputs) -> dict[str, float]:
    """How far each output moves from picture to picture: the scale to see differences on."""
    largest = reference[max(reference)]
    return {
        name: float((tensor - tensor[:1]).abs().amax())
        for name, tensor in zip(recipe.output_names, largest, strict=True)
    }


def _explain(
    recipe: Recipe,
    model: nn.Module,
    pictures: tuple[Tensor, ...],
    packaged: Outputs,
    reference: Outputs,
    beyond: list[tuple[int, int]],
    tolerance: float,
) -> int:
    """How many pictures differ no more than the model's own thresholds account for.

    That is all of `beyond`; PackagingError, naming the output, for the first that differs more.
    """
    for batch in sorted({batch for batch, _ in beyond}):
        noise = _bound(reference[batch][-1], tolerance)
        shown = tuple(tensor[:batch] for tensor in pictures)
        trials = recipe.rounding_trials(model, shown, noise, TRIALS)
        for picture in (p for b, p in beyond if b == batch):
            for place, name in enumerate(recipe.output_names):
                wanted = reference[batch][place][picture]
                found = float((packaged[batch][place][picture] - wanted).abs().amax())
                own = [float((t[place][picture].cpu() - wanted).abs().amax()) for t in trials]
                allowed = max(_bound(wanted, tolerance), 2 * max(own, default=0.0))
                if found > allowed:
                    raise PackagingError(
                        f"parity: {name} of picture {picture} at batch {batch} differs by "
                        f"{found:.3g} from the unpackaged model, and {allowed:.3g} is allowed"
                    )
    return len(beyond)


def _in_order_of(packaged: tuple[Tensor, ...], reference: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`packaged` with the queries of each picture paired one to one with the nearest reference."""
    from scipy.optimize import linear_sum_assignment

    ordered = [torch.empty_like(tensor) for tensor in packaged]
    for picture in range(reference[0].shape[0]):
        cost = sum(
            torch.cdist(wanted[picture].double(), found[picture].double(), p=1)
            for wanted, found in zip(reference, packaged, strict=True)
        )
        _, columns = linear_sum_assignment(cost.numpy())
        for tensor, found in zip(ordered, packaged, strict=True):
            tensor[picture] = found[picture][torch.from_numpy(columns)]
    return tuple(ordered)
