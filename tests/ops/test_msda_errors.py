"""Operands that don't fit are refused by name, with what they are and what they should be."""

from __future__ import annotations

import pytest
import torch
from msda_operands import Case, Operands, direction, draw

CASE = Case(((4, 6), (2, 3)), batch=2, queries=5, heads=3, channels=4, points=2)
BACKENDS = ["deform", "deform_eager", "deform_reference"]


def cut(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    return tensor.narrow(dimension, 0, tensor.shape[dimension] - 1)


def changed(name: str, change) -> callable:
    return lambda o: o.with_(**{name: change(getattr(o, name))})


V, S, N, P, W = (
    "value",
    "spatial_shapes",
    "level_start_index",
    "sampling_locations",
    "attention_weights",
)
UNFIT = {
    "value_rank": (changed(V, lambda t: t[0]), r"value must have 4 dimensions \(B, S, G, D\), but"),
    "value_int": (changed(V, lambda t: t.int()), r"value must be float32, .* but is Int"),
    "value_complex": (changed(V, lambda t: t.cfloat()), r"value must be float32, .*ComplexFloat"),
    "value_heads": (changed(V, lambda t: cut(t, 2)), r"locations must have size 2 \(heads of val"),
    "no_channels": (changed(V, lambda t: t[..., :0]), r"value must have at least 1 channel"),
    "shapes_rank": (changed(S, lambda t: t[0]), r"spatial_shapes must have 2 dimensions \(L, 2\)"),
    "shapes_float": (changed(S, lambda t: t.float()), r"spatial_shapes must be int32 or int64"),
    "shapes_short": (changed(S, lambda t: t.short()), r"spatial_shapes must be int32 or int64"),
    "shapes_three": (changed(S, lambda t: t[:, :1]), r"spatial_shapes must have size 2 \(height"),
    "start_rank": (changed(N, lambda t: t[0]), r"level_start_index must have 1 dimensions \(L\)"),
    "start_float": (changed(N, lambda t: t.float()), r"level_start_index must be int32 or int64"),
    "start_count": (changed(N, lambda t: cut(t, 0)), r"level_start_index must have size 2 \(level"),
    "points_rank": (changed(P, lambda t: t[0]), r"sampling_locations must have 6 dimensions"),
    "points_int": (changed(P, lambda t: t.long()), r"sampling_locations must be float32, .* Long"),
    "points_batch": (changed(P, lambda t: cut(t, 0)), r"locations must have size 2 \(batch of va"),
    "points_level": (changed(P, lambda t: cut(t, 3)), r"locations must have size 2 \(levels of s"),
    "points_pair": (changed(P, lambda t: cut(t, 5)), r"locations must have size 2 \(x and y\)"),
    "weights_rank": (changed(W, lambda t: t[0]), r"attention_weights must have 4 dimensions"),
    "weights_int": (changed(W, lambda t: t.int()), r"attention_weights must be float32, .* Int"),
    "weights_batch": (changed(W, lambda t: cut(t, 0)), r"weights must have size 2 \(batch of val"),
    "weights_query": (changed(W, lambda t: cut(t, 1)), r"weights must have size 5 \(queries of s"),
    "weights_heads": (changed(W, lambda t: cut(t, 2)), r"weights must have size 3 \(heads of val"),
    "weights_count": (changed(W, lambda t: cut(t, 3)), r"weights must have size 4 \(levels times"),
    "weights_points": (
        changed(W, lambda t: t.unflatten(3, (4, 1))),
        r"attention_weights must have size 2 \(levels of spatial_shapes\) in dimension 3, .* 4",
    ),
    "sparse": (changed(V, lambda t: t.to_sparse()), r"dense tensor|not.*Sparse|Could not run"),
}


@pytest.mark.parametrize("softmax", ["msda", "msda_softmax"])
@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize("backend", BACKENDS)
def test_unfit_operand_is_named(backend, unfit, softmax, device):
    change, message = UNFIT[unfit]
    operands = change(draw(CASE, device=device))
    prefix = "" if unfit == "sparse" else f"{softmax}: .*"
    with pytest.raises((RuntimeError, NotImplementedError), match=f"(?s){prefix}{message}"):
        getattr(getattr(torch.ops, backend), softmax)(*operands)


UNFIT_GRADIENTS = {
    "rank": (lambda g: g[0], r"grad_output must have 3 dimensions \(B, Q, G\*D\), but has 2"),
    "batch": (lambda g: cut(g, 0), r"grad_output must have size 2 \(batch of value\)"),
    "queries": (lambda g: cut(g, 1), r"grad_output must have size 5 \(queries of sampling_loc"),
    "channels": (lambda g: cut(g, 2), r"grad_output must have size 12 \(heads times channels"),
    "type": (lambda g: g.double(), r"grad_output must have value's type, Float, but is Double"),
}


@pytest.mark.parametrize("softmax", ["msda", "msda_softmax"])
@pytest.mark.parametrize("unfit", UNFIT_GRADIENTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_unfit_gradient_is_named(backend, unfit, softmax, device):
    change, message = UNFIT_GRADIENTS[unfit]
    operands = draw(CASE, device=device)
    run = getattr(getattr(torch.ops, backend), f"{softmax}_backward")
    with pytest.raises(RuntimeError, match=f"(?s){softmax}: .*{message}"):
        run(change(direction(operands)), *operands)


@pytest.mark.parametrize("unfit", ["value_rank", "shapes_float", "points_pair", "weights_count"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_names_an_unfit_operand(backend, unfit, device):
    change, message = UNFIT[unfit]
    operands = draw(CASE, device=device)
    grad = direction(operands)
    with pytest.raises(RuntimeError, match=f"(?s)msda: .*{message}"):
        getattr(torch.ops, backend).msda_backward(grad, *change(operands))


TABLES = {
    "zero_height": ([[0, 6], [2, 3]], [0, 24], r"spatial_shapes\[0\] must be a positive .*\(0, 6"),
    "negative": ([[4, 6], [-2, -3]], [0, 24], r"spatial_shapes\[1\] must be a positive .*\(-2, -3"),
    "gap": ([[4, 6], [2, 3]], [0, 25], r"level_start_index\[1\] must be 24, .* but is 25"),
    "late": ([[4, 6], [2, 3]], [1, 24], r"level_start_index\[0\] must be 0, .* but is 1"),
    "too_large": ([[4, 6], [20, 3]], [0, 24], r"spatial_shapes\[1\] is \(20, 3\), .* the 30 rows"),
    "too_small": ([[4, 6], [1, 3]], [0, 24], r"value must have 27 rows, .* but has 30"),
    "overflow": ([[4, 6], [2**62, 2**62]], [0, 24], r"spatial_shapes\[1\] is .* the 30 rows"),
}


def with_table(table: str, device: torch.device) -> Operands:
    shapes, starts, _ = TABLES[table]
    return draw(CASE, device=device).with_(
        spatial_shapes=torch.tensor(shapes, device=device),
        level_start_index=torch.tensor(starts, device=device),
    )


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_level_table_on_the_cpu_is_named(backend, table):
    with pytest.raises(RuntimeError, match=f"(?s){TABLES[table][2]}"):
        getattr(torch.ops, backend).msda(*with_table(table, torch.device("cpu")))
    grad = direction(draw(CASE))
    with pytest.raises(RuntimeError, match=f"(?s){TABLES[table][2]}"):
        getattr(torch.ops, backend).msda_backward(grad, *with_table(table, torch.device("cpu")))


@pytest.mark.parametrize("table", TABLES)
def test_wrong_level_table_on_the_gpu_is_named_when_asked_for(table, cuda, monkeypatch):
    monkeypatch.setenv("DEFORM_VALIDATE", "1")
    with pytest.raises(RuntimeError, match=f"(?s){TABLES[table][2]}"):
        torch.ops.deform.msda(*with_table(table, cuda))
    grad = direction(draw(CASE, device=cuda))
    with pytest.raises(RuntimeError, match=f"(?s){TABLES[table][2]}"):
        torch.ops.deform.msda_backward(grad, *with_table(table, cuda))


@pytest.mark.parametrize("table", ["zero_height", "negative", "too_large", "overflow"])
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_level_outside_value_samples_nothing_on_the_gpu(backend, table, cuda):
    unusable = 0 if table == "zero_height" else 1
    operands = with_table(table, cuda)
    weights = operands.attention_weights.unflatten(-1, (2, CASE.points)).clone()
    result = getattr(torch.ops, backend).msda(*operands)
    weights[..., unusable, :] = 0
    good = draw(CASE, device=cuda).with_(attention_weights=weights)
    expected = getattr(torch.ops, backend).msda(*good)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)

    grad = direction(good)
    results = getattr(torch.ops, backend).msda_backward(grad, *operands)
    expected = getattr(torch.ops, backend).msda_backward(grad, *good)
    torch.testing.assert_close(results[0], expected[0], rtol=0, atol=1e-5)
    assert (results[1][:, :, :, unusable] == 0).all()
    assert (results[2].unflatten(-1, (2, CASE.points))[..., unusable, :] == 0).all()
    usable = 1 - unusable
    torch.testing.assert_close(results[1][:, :, :, usable], expected[1][:, :, :, usable])


@pytest.mark.parametrize("name", [S, N, P, W])
def test_operand_on_another_device_is_named(name, cuda):
    operands = draw(CASE, device=cuda)
    moved = operands.with_(**{name: getattr(operands, name).cpu()})
    message = rf"msda: {name} must be on value's device, cuda:0, but is on cpu"
    with pytest.raises(RuntimeError, match=message):
        torch.ops.deform.msda(*moved)
    with pytest.raises(RuntimeError, match=message):
        torch.ops.deform.msda_backward(direction(operands), *moved)
    message = "msda: grad_output must be on value's device, cuda:0, but is on cpu"
    with pytest.raises(RuntimeError, match=message):
        torch.ops.deform.msda_backward(direction(operands).cpu(), *operands)


def test_more_rows_than_an_index_holds_are_refused():
    case = Case(((1, 1),), batch=1, queries=1, heads=1, channels=1, points=1)
    value = torch.zeros(1, 1, 1, 1).expand(1, 2**31, 1, 1)
    operands = draw(case).with_(value=value)
    for backend in (torch.ops.deform, torch.ops.deform_reference):
        with pytest.raises(RuntimeError, match=r"fewer than 2\^31 rows \(S\), but has 2147483648"):
            backend.msda(*operands)
        with pytest.raises(RuntimeError, match=r"fewer than 2\^31 rows \(S\), but has 2147483648"):
            backend.msda_backward(torch.zeros(1, 1, 1), *operands)
