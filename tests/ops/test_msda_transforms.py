"""msda under autograd, torch.func, fake tensors, torch.export and torch.compile."""

from __future__ import annotations

import pytest
import torch
from msda_operands import Case, Operands, draw, grid_sample_attention
from torch.autograd import forward_ad

CASE = Case(((5, 4), (3, 2)), batch=2, queries=4, heads=2, channels=3, points=2)
OPS = ["msda", "msda_softmax"]


def leaves(operands: Operands) -> list[torch.Tensor]:
    inputs = operands.value, operands.sampling_locations, operands.attention_weights
    return [tensor.clone().requires_grad_() for tensor in inputs]


def call(name: str, operands: Operands, backend: str = "deform"):
    """The operator as a function of its float operands."""

    def run(value, locations, weights):
        table = operands.spatial_shapes, operands.level_start_index
        return getattr(getattr(torch.ops, backend), name)(value, *table, locations, weights)

    return run


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_gradient_equals_grid_samples(backend, name, device):
    operands = draw(CASE, torch.float64, device)
    ours, theirs = leaves(operands), leaves(operands)
    result = call(name, operands, backend)(*ours)
    expected = grid_sample_attention(operands.levels, *theirs, name == "msda_softmax")
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    direction = torch.randn(result.shape, dtype=torch.float64).to(device)
    ours_gradients = torch.autograd.grad(result, ours, direction)
    their_gradients = torch.autograd.grad(expected, theirs, direction)
    for ours_, theirs_ in zip(ours_gradients, their_gradients, strict=True):
        torch.testing.assert_close(ours_, theirs_, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", OPS)
def test_derivatives_hold_numerically(name, device):
    case = Case(((3, 4), (2, 2)), batch=1, queries=2, heads=2, channels=2, points=1)
    operands = draw(case, torch.float64, device)
    run, inputs = call(name, operands), leaves(operands)
    # Sums by atomic additions, as on a GPU, come in any order.
    torch.autograd.gradcheck(run, inputs, check_forward_ad=True, nondet_tol=1e-10)
    torch.autograd.gradgradcheck(run, inputs, nondet_tol=1e-10)


def test_gradient_at_no_real_place_and_past_the_border_is_0(device):
    operands = draw(CASE, torch.float64, device)
    operands.sampling_locations.view(-1, 2)[::4, 0] = float("nan")
    operands.sampling_locations.view(-1, 2)[1::4, 1] = float("inf")
    operands.sampling_locations.view(-1, 2)[2::4] = 1.5
    inputs = leaves(operands)
    call("msda", operands)(*inputs).sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)
    by_point = inputs[1].grad.view(-1, 2)
    for lost in (0, 1, 2):
        assert (by_point[lost::4] == 0).all()
    assert (by_point[3::4] != 0).any()


@pytest.mark.parametrize("empty", ["batch", "queries"])
def test_gradient_of_an_empty_result_is_0(empty, device):
    operands = draw(Case(((4, 4),), **{empty: 0}), device=device)
    inputs = leaves(operands)
    call("msda", operands)(*inputs).sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)


def test_each_operand_alone_may_want_a_gradient(device):
    operands = draw(CASE, torch.float64, device)
    all_inputs = leaves(operands)
    expected = torch.autograd.grad(call("msda", operands)(*all_inputs).sum(), all_inputs)
    for index in range(3):
        inputs = [tensor.detach() for tensor in all_inputs]
        inputs[index].requires_grad_()
        result = call("msda", operands)(*inputs)
        (gradient,) = torch.autograd.grad(result.sum(), inputs[index])
        torch.testing.assert_close(gradient, expected[index])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_backend_without_a_derivative_says_so(backend):
    operands = draw(CASE)
    result = call("msda", operands, f"deform_{backend}")(*leaves(operands))
    with pytest.raises(RuntimeError, match=f"derivative for deform_{backend}::msda is not impl"):
        result.sum().backward()


def test_no_gradient_wanted_takes_the_fused_kernel(device):
    operands = draw(CASE, device=device)
    fused = getattr(torch.ops, f"deform_{device.type}").msda(*operands)
    with torch.no_grad():
        assert torch.equal(call("msda", operands)(*leaves(operands)), fused)
    with torch.inference_mode():
        assert torch.equal(torch.ops.deform.msda(*operands), fused)
    assert torch.equal(torch.ops.deform.msda(*operands), fused)


@pytest.mark.parametrize("name", OPS)
def test_functional_transforms(name, device):
    operands = draw(CASE, torch.float64, device)
    inputs = [tensor.detach() for tensor in leaves(operands)]
    run = call(name, operands)
    gradient = torch.func.grad(lambda value: run(value, *inputs[1:]).square().sum())(inputs[0])
    wanted = leaves(operands)
    run(*wanted).square().sum().backward()
    torch.testing.assert_close(gradient, wanted[0].grad)

    stacked = [torch.stack([tensor, tensor * 0.9, tensor * 1.1]) for tensor in inputs]
    mapped = torch.func.vmap(run)(*stacked)
    expected = torch.stack([run(*(tensor[i] for tensor in stacked)) for i in range(3)])
    torch.testing.assert_close(mapped, expected)
    shared = torch.func.vmap(run, in_dims=(None, 0, None))(inputs[0], stacked[1], inputs[2])
    expected = torch.stack([run(inputs[0], stacked[1][i], inputs[2]) for i in range(3)])
    torch.testing.assert_close(shared, expected)

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(inputs[2], torch.ones_like(inputs[2]))
        assert forward_ad.unpack_dual(run(*inputs[:2], dual)).tangent is not None


@pytest.mark.parametrize("backend", ["deform", "deform_cpu", "deform_cuda", "deform_reference"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_meta_tensors_give_shape_and_type(backend, dtype):
    operands = [tensor.to("meta") for tensor in draw(CASE, dtype)]
    result = getattr(torch.ops, backend).msda_softmax(*operands)
    assert result.device.type == "meta"
    assert (result.shape, result.dtype) == ((2, 4, 6), dtype)
    assert result.is_contiguous()


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("wants_gradient", [False, True])
def test_opcheck(name, wants_gradient, device):
    operands = draw(CASE, device=device)
    value, locations, weights = leaves(operands)
    if not wants_gradient:
        value, locations, weights = (t.detach() for t in (value, locations, weights))
    table = operands.spatial_shapes, operands.level_start_index
    overload = getattr(torch.ops.deform, name).default
    torch.library.opcheck(overload, (value, *table, locations, weights))


class Attention(torch.nn.Module):
    """The operator behind a layer with parameters that want gradients."""

    def __init__(self, operands: Operands) -> None:
        super().__init__()
        channels = operands.value.shape[-1]
        self.projection = torch.nn.Linear(channels, channels).to(operands.value)
        self.register_buffer("spatial_shapes", operands.spatial_shapes)
        self.register_buffer("level_start_index", operands.level_start_index)

    def forward(self, value, locations, weights):
        table = self.spatial_shapes, self.level_start_index
        return torch.ops.deform.msda(self.projection(value), *table, locations, weights) + 1


def operator_calls(program: torch.export.ExportedProgram) -> int:
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return targets.count(torch.ops.deform.msda.default)


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_export_keeps_one_node_for_any_batch(gradients, strict, device):
    operands = draw(CASE, device=device)
    inputs = operands.value, operands.sampling_locations, operands.attention_weights
    module = Attention(operands).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.set_grad_enabled(gradients):
        program = torch.export.export(
            module, inputs, dynamic_shapes=[{0: batch}] * 3, strict=strict
        )
    assert operator_calls(program) == 1
    lowered = program.run_decompositions()
    assert operator_calls(lowered) == 1
    names = [str(n.target) for n in lowered.graph.nodes if n.op == "call_function"]
    assert not any("index_select" in name or "grid" in name for name in names)
    with torch.no_grad():
        for count in (1, 3):
            more = [torch.cat([tensor, tensor])[:count] for tensor in inputs]
            torch.testing.assert_close(program.module()(*more), module(*more))


def test_compile_in_one_graph(device):
    operands = draw(CASE, device=device)
    inputs = operands.value, operands.sampling_locations, operands.attention_weights
    module = Attention(operands)
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph

    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, backend=keep)
        torch.testing.assert_close(compiled(*inputs), module(*inputs))
    targets = [node.target for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert sum(target is torch.ops.deform.msda for target in targets) == 1

    torch.compiler.reset()
    trained = torch.compile(module, fullgraph=True, backend="aot_eager")
    result = trained(*inputs)
    torch.testing.assert_close(result, module(*inputs))
    (gradient,) = torch.autograd.grad(result.sum(), module.projection.weight)
    (expected,) = torch.autograd.grad(module(*inputs).sum(), module.projection.weight)
    torch.testing.assert_close(gradient, expected)


def test_eager_backend_exports_without_the_library(device):
    operands = draw(CASE, device=device)

    class Eager(torch.nn.Module):
        def forward(self, *operands):
            return torch.ops.deform_eager.msda_softmax(*operands)

    program = torch.export.export(Eager(), tuple(operands)).run_decompositions()
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert not any("deform" in name for name in names)
    expected = torch.ops.deform.msda_softmax(*operands)
    torch.testing.assert_close(program.module()(*operands), expected, rtol=1e-5, atol=1e-5)
