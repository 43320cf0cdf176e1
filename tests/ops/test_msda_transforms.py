"""msda under torch.func, autocast, fake tensors, torch.export, torch.compile and AOTInductor."""

from __future__ import annotations

import pytest
import torch
from msda_operands import Case, Operands, call, direction, draw, floats, leaves
from torch.autograd import forward_ad

CASE = Case(((5, 4), (3, 2)), batch=2, queries=4, heads=2, channels=3, points=2)
OPS = ["msda", "msda_softmax"]

NAMESPACES = ["deform", "deform_cpu", "deform_cuda", "deform_jit", "deform_reference"]


def test_no_gradient_wanted_takes_the_fused_kernel(device):
    operands = draw(CASE, device=device)
    fused = getattr(torch.ops, f"deform_{device.type}").msda(*operands)
    with torch.no_grad():
        assert torch.equal(call("msda", operands)(*leaves(operands)), fused)
    with torch.inference_mode():
        assert torch.equal(torch.ops.deform.msda(*operands), fused)
    assert torch.equal(torch.ops.deform.msda(*operands), fused)


@pytest.mark.parametrize("name", OPS)
def test_functional_gradient(name, device):
    operands = draw(CASE, torch.float64, device)
    run = call(name, operands)
    got = torch.func.grad(lambda *t: run(*t).square().sum(), argnums=(0, 1, 2))(*floats(operands))
    wanted = leaves(operands)
    run(*wanted).square().sum().backward()
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs.grad)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", ["deform", "deform_reference"])
def test_vmap_equals_a_loop(backend, name, device):
    operands = draw(CASE, torch.float64, device)
    inputs, run = floats(operands), call(name, operands, backend)
    stacked = [torch.stack([tensor, tensor * 0.9, tensor * 1.1]) for tensor in inputs]
    mapped = torch.func.vmap(run)(*stacked)
    expected = torch.stack([run(*(tensor[i] for tensor in stacked)) for i in range(3)])
    torch.testing.assert_close(mapped, expected)
    shared = torch.func.vmap(run, in_dims=(None, 0, None))(inputs[0], stacked[1], inputs[2])
    expected = torch.stack([run(inputs[0], stacked[1][i], inputs[2]) for i in range(3)])
    torch.testing.assert_close(shared, expected)


@pytest.mark.parametrize("name", OPS)
def test_vmap_of_the_backward_operator_equals_a_loop(name, device):
    operands = draw(CASE, torch.float64, device)
    inputs, run = floats(operands), call(f"{name}_backward", operands)
    grads = torch.stack([direction(operands, seed) for seed in range(3)])
    mapped = torch.func.vmap(run, in_dims=(0, None, None, None))(grads, *inputs)
    for index, result in enumerate(mapped):
        expected = torch.stack([run(grad, *inputs)[index] for grad in grads])
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("name", OPS)
def test_gradients_for_each_sample(name, device):
    """vmap over grad, as for gradients of single samples."""
    operands = draw(CASE, torch.float64, device)
    run = call(name, operands)
    stacked = [torch.stack([tensor, tensor * 0.9]) for tensor in floats(operands)]

    def loss(*tensors):
        return run(*tensors).square().sum()

    mapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(*stacked)
    for i in range(2):
        wanted = [tensor[i].clone().requires_grad_() for tensor in stacked]
        loss(*wanted).backward()
        for ours, theirs in zip(mapped, wanted, strict=True):
            torch.testing.assert_close(ours[i], theirs.grad)


@pytest.mark.parametrize("name", OPS)
def test_forward_mode_equals_finite_differences(name, device):
    operands = draw(CASE, torch.float64, device)
    value, locations, weights = floats(operands)
    tangent = torch.randn_like(locations)
    run = call(name, operands)
    step = 1e-7
    ahead, behind = (run(value, locations + s * tangent, weights) for s in (step, -step))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(locations, tangent)
        got = forward_ad.unpack_dual(run(value, dual, weights)).tangent
    torch.testing.assert_close(got, (ahead - behind) / (2 * step), rtol=0, atol=1e-6)
    functional = torch.func.jvp(lambda x: run(value, x, weights), (locations,), (tangent,))[1]
    torch.testing.assert_close(functional, got)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_leaves_operands_as_they_are(dtype, device):
    operands = draw(CASE, torch.float32, device, location_dtype=dtype)
    expected = call("msda", operands)(*floats(operands))
    with torch.autocast(device.type, dtype=dtype):
        result = call("msda", operands)(*floats(operands))
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)


@pytest.mark.parametrize("backend", NAMESPACES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_meta_tensors_give_shape_and_type(backend, dtype):
    operands = [tensor.to("meta") for tensor in draw(CASE, dtype, location_dtype=torch.float32)]
    result = getattr(torch.ops, backend).msda_softmax(*operands)
    assert result.device.type == "meta"
    assert (result.shape, result.dtype) == ((2, 4, 6), dtype)
    assert result.is_contiguous()
    gradients = getattr(torch.ops, backend).msda_softmax_backward(result, *operands)
    for gradient, operand in zip(gradients, (operands[0], *operands[3:]), strict=True):
        assert (gradient.shape, gradient.dtype) == (operand.shape, operand.dtype)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_opcheck(backend, name, wants_gradient, device):
    operands = draw(CASE, device=device)
    value, locations, weights = leaves(operands)
    if not wants_gradient:
        value, locations, weights = (t.detach() for t in (value, locations, weights))
    table = operands.spatial_shapes, operands.level_start_index
    overload = getattr(getattr(torch.ops, backend), name).default
    torch.library.opcheck(overload, (value, *table, locations, weights))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_of_the_backward_operator(name, device):
    operands = draw(CASE, device=device)
    overload = getattr(torch.ops.deform, f"{name}_backward").default
    torch.library.opcheck(overload, (direction(operands), *operands))


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


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_training_keeps_both_operators(dynamic, device):
    """The forward and the backward graph each hold one node, and no step of the eager form."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    operands = draw(CASE, device=device)
    module = Attention(operands)
    names: list[list[str]] = []

    def keep(graph, example):
        names.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return make_boxed_func(graph.forward)

    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    trained = torch.compile(module, fullgraph=True, backend=backend, dynamic=dynamic)
    value, locations, weights = leaves(operands)
    wanted = module.projection.weight, locations, weights
    result = trained(value, locations, weights)
    expected = module(value, locations, weights)
    torch.testing.assert_close(result, expected)
    got = torch.autograd.grad(result.square().sum(), wanted)
    for ours, theirs in zip(got, torch.autograd.grad(expected.square().sum(), wanted), strict=True):
        torch.testing.assert_close(ours, theirs)
    forward, backward = names
    assert forward.count("deform.msda.default") == 1
    assert backward.count("deform.msda_backward.default") == 1
    assert not any("index" in name for name in forward + backward)


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


def test_aot_inductor_package_calls_the_operator(tmp_path):
    operands = draw(CASE)
    inputs, module = floats(operands), Attention(operands).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=[{0: batch}] * 3)
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "attention.pt2")
        )
        served = torch._inductor.aoti_load_package(path)
        for count in (1, 3):
            more = [torch.cat([tensor, tensor])[:count] for tensor in inputs]
            torch.testing.assert_close(served(*more), module(*more))
