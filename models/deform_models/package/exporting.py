"""Model to exported program: fixed picture size, dynamic batch, operators as single nodes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deform_models.errors import PackagingError
from deform_models.package import operators
from deform_models.package.checkpoint import Checkpoint
from deform_models.package.target import Target


@dataclass(frozen=True)
class Exported:
    """A program and what its borders look like."""

    program: torch.export.ExportedProgram
    inputs: list[dict[str, Any]]
    """Tensor entries of package.json; a size of -1 is the batch."""
    outputs: list[dict[str, Any]]
    operators: list[str]
    """Public operators that the program calls."""


def export_network(
    checkpoint: Checkpoint,
    model: nn.Module,
    target: Target,
    *,
    height: int,
    width: int,
    max_batch: int,
) -> Exported:
    """Exports a copy of `model` with the public operators in it; `model` stays as it is.

    The program takes any batch from 1 to `max_batch`, pictures of exactly `height` × `width`.
    """
    recipe = checkpoint.recipe
    served = copy.deepcopy(model)
    operators.put_in_operators(served)
    served = served.to(device=target.device, dtype=target.torch_dtype)
    network = recipe.network(served).eval()
    # An example batch of 1 would be taken for a constant.
    example = _example_inputs(
        recipe.takes_pixel_mask, min(2, max_batch), height, width, target.device
    )
    batch = {0: torch.export.Dim("batch", min=1, max=max_batch)} if max_batch > 1 else None
    shapes = tuple(batch for _ in example)
    try:
        with torch.no_grad(), recipe.tracing():
            program = torch.export.export(network, example, dynamic_shapes=shapes)
    except (torch._dynamo.exc.UserError, RuntimeError, ValueError) as error:
        raise PackagingError(
            f"export: the network can't take a batch of 1 to {max_batch} at {height}×{width} "
            f"({' '.join(str(error).split())[:400]})"
        ) from error
    _drop_unused_random_numbers(program)
    operators.refuse_grid_sampler(program)
    names = operators.check_operator_calls(
        operators.operator_calls(program), recipe.operator_calls(checkpoint.config), "export"
    )
    inputs = [
        _entry(name, value)
        for name, value in zip(("pixel_values", "pixel_mask"), example, strict=False)
    ]
    outputs = [
        _entry(name, node.meta["val"])
        for name, node in zip(recipe.output_names, _output_nodes(program), strict=True)
    ]
    _check_outputs(checkpoint, outputs)
    return Exported(program, inputs, outputs, names)


def _example_inputs(
    with_mask: bool, batch: int, height: int, width: int, device: str
) -> tuple[Tensor, ...]:
    pixels = torch.zeros(batch, 3, height, width, device=device)
    if not with_mask:
        return (pixels,)
    return pixels, torch.ones(batch, height, width, dtype=torch.int64, device=device)


def _drop_unused_random_numbers(program: torch.export.ExportedProgram) -> None:
    """Removes draws that training would look at: a server's run is to depend on its input alone."""
    graph = program.graph_module.graph
    for node in reversed(graph.nodes):
        if node.target is torch.ops.aten.rand.default and not node.users:
            graph.erase_node(node)
    left = [n for n in graph.nodes if n.target is torch.ops.aten.rand.default]
    if left:
        raise PackagingError("export: the network draws random numbers when it predicts")
    program.graph_module.recompile()


def _output_nodes(program: torch.export.ExportedProgram) -> list[Any]:
    return list(program.graph.output_node().args[0])


def _entry(name: str, value: Tensor) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": [-1, *(int(side) for side in value.shape[1:])],
    }


def _check_outputs(checkpoint: Checkpoint, outputs: list[dict[str, Any]]) -> None:
    logits = outputs[0]
    wanted = [
        -1,
        checkpoint.recipe.num_queries(checkpoint.config),
        checkpoint.recipe.logits_per_query(checkpoint.config),
    ]
    assert logits["shape"] == wanted, (logits, wanted)
