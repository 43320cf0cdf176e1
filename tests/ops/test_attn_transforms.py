"""attn under autograd, torch.func, fake tensors, torch.export, torch.compile and AOTInductor."""

from __future__ import annotations

import pytest
import torch
from attn_operands import Case, call, draw
from torch.autograd import forward_ad

CASE = Case((5, 4), groups=2, channels=3, extra=1, spread=0.5)
OPS = ["attn", "attn_softmax"]

NAMESPACES = ["deform", "deform_cpu", "deform_cuda", "deform_jit", "deform_reference"]


def leaves(tensors) -> list[torch.Tensor]:
    return [tensor.clone().requires_grad_() for tensor in tensors]


def with_gradient(name: str = "attn", backend: str = "deform"):
    """The backward operator as a function of the result's gradient and the operator's tensors."""
    return call(CASE, f"{name}_backward", backend)


@pytest.mark.parametrize("name", OPS)
def test_functional_gradient(name, device):
    inputs = draw(CASE, torch.float64, device)
    run = call(CASE, name)
    got = torch.func.grad(lambda *t: run(*t).square().sum(), argnums=(0, 1))(*inputs)
    wanted = leaves(inputs)
    run(*wanted).square().sum().backward()
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs.grad)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("backend", ["deform", "deform_reference"])
def test_vmap_equals_a_loop(backend, name, device):
    inputs = draw(CASE, torch.float64, device)
    run = call(CASE, name, backend)
    stacked = [torch.stack([tensor, tensor * 0.9, tensor * 1.1]) for tensor in inputs]
    mapped = torch.func.vmap(run)(*stacked)
    expected = torch.stack([run(*(tensor[i] for tensor in stacked)) for i in range(3)])
    torch.testing.assert_close(mapped, expected)
    shared = torch.func.vmap(run, in_dims=(None, 0))(inputs[0], stacked[1])
    expected = torch.stack([run(inputs[0], stacked[1][i]) for i in range(3)])
    torch.testing.assert_close(shared, expected)


@pytest.mark.parametrize("name", OPS)
def test_vmap_of_the_backward_operator_equals_a_loop(name, device):
    inputs = draw(CASE, torch.float64, device)
    grads = torch.randn(3, *call(CASE)(*inputs).shape, dtype=torch.float64).to(device)
    run = with_gradient(name)
    mapped = torch.func.vmap(run, in_dims=(0, None, None))(grads, *inputs)
    for index, result in enumerate(mapped):
        expected = torch.stack([run(grad, *inputs)[index] for grad in grads])
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("name", OPS)
def test_gradients_for_each_sample(name, device):
    """vmap over grad, as for gradients of single samples."""
    inputs = draw(CASE, torch.float64, device)
    stacked = [torch.stack([tensor, tensor * 0.9]) for tensor in inputs]

    def loss(value, offset_mask):
        return call(CASE, name)(value, offset_mask).square().sum()

    mapped = torch.func.vmap(torch.func.grad(loss, argnums=1))(*stacked)
    for i in range(2):
        wanted = leaves(tensor[i] for tensor in stacked)
        loss(*wanted).backward()
        torch.testing.assert_close(mapped[i], wanted[1].grad)


@pytest.mark.parametrize("name", OPS)
def test_forward_mode_equals_finite_differences(name, device):
    value, offset_mask = draw(CASE, torch.float64, device)
    tangent = torch.randn_like(offset_mask)
    run = call(CASE, name)
    step = 1e-6
    expected = run(value, offset_mask + step * tangent) - run(value, offset_mask - step * tangent)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(offset_mask, tangent)
        got = forward_ad.unpack_dual(run(value, dual)).tangent
    torch.testing.assert_close(got, expected / (2 * step), rtol=0, atol=1e-7)
    functional = torch.func.jvp(lambda m: run(value, m), (offset_mask,), (tangent,))[1]
    torch.testing.assert_close(functional, got)


def test_no_gradient_wanted_leaves_no_graph(device):
    inputs = draw(CASE, device=device)
    fused = call(CASE, backend=f"deform_{device.type}")(*inputs)
    with torch.no_grad():
        assert torch.equal(call(CASE)(*leaves(inputs)), fused)
    with torch.inference_mode():
        assert torch.equal(call(CASE)(*inputs), fused)
    result = call(CASE)(*inputs)
    assert torch.equal(result, fused)
    assert not result.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_leaves_operands_as_they_are(dtype, device):
    inputs = draw(CASE, torch.float32, device, offset_dtype=dtype)
    expected = call(CASE)(*inputs)
    with torch.autocast(device.type, dtype=dtype):
        result = call(CASE)(*inputs)
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)


@pytest.mark.parametrize("backend", NAMESPACES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_meta_tensors_give_shapes_and_types(backend, dtype):
    value, offset_mask = (t.to("meta") for t in draw(CASE, dtype, offset_dtype=torch.float32))
    result = call(CASE, "attn_softmax", backend)(value, offset_mask)
    assert result.device.type == "meta"
    assert (result.shape, result.dtype) == ((2, 5, 4, 6), dtype)
    assert result.is_contiguous()
    by_value, by_offset = with_gradient(backend=backend)(result, value, offset_mask)
    assert (by_value.shape, by_value.dtype) == (value.shape, dtype)
    assert (by_offset.shape, by_offset.dtype) == (offset_mask.shape, torch.float32)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_opcheck(backend, name, wants_gradient, device):
    inputs = draw(CASE, device=device)
    inputs = leaves(inputs) if wants_gradient else inputs
    overload = getattr(getattr(torch.ops, backend), name).default
    torch.library.opcheck(overload, (*inputs, *CASE.parameters))


@pytest.mark.parametrize("name", OPS)
def test_opcheck_of_the_backward_operator(name, device):
    inputs = draw(CASE, device=device)
    grad = torch.randn_like(call(CASE)(*inputs))
    overload = getattr(torch.ops.deform, f"{name}_backward").default
    torch.library.opcheck(overload, (grad, *inputs, *CASE.parameters))


class Sampling(torch.nn.Module):
    """The operator behind a layer with parameters that want gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(6, 6)

    def forward(self, value, offset_mask):
        return call(CASE, "attn_softmax")(self.projection(value), offset_mask) + 1


def operator_calls(program: torch.export.ExportedProgram) -> int:
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return targets.count(torch.ops.deform.attn_softmax.default)


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_export_keeps_one_node_for_any_batch(gradients, strict, device):
    inputs = draw(CASE, device=device)
    module = Sampling().to(device).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.set_grad_enabled(gradients):
        program = torch.export.export(
            module, inputs, dynamic_shapes=[{0: batch}] * 2, strict=strict
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


def test_export_for_maps_of_any_size(device):
    """The output's size is tied to the map's, by the stride of 2 here."""
    case = Case((8, 12), 1, stride=(2, 2), groups=2, channels=3)

    class Strided(torch.nn.Module):
        def forward(self, value, offset_mask):
            return call(case)(value, offset_mask)

    rows, columns = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("columns", max=64)
    program = torch.export.export(
        Strided(),
        draw(case, device=device),
        dynamic_shapes=[{1: 2 * rows, 2: 2 * columns}, {1: rows, 2: columns}],
    )
    for size in ((8, 12), (6, 4), (20, 2)):
        other = draw(Case(size, 1, stride=(2, 2), groups=2, channels=3), device=device)
        torch.testing.assert_close(program.module()(*other), call(case)(*other))


def test_compile_in_one_graph(device):
    inputs = draw(CASE, device=device)
    module = Sampling().to(device)
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph

    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, backend=keep)
        torch.testing.assert_close(compiled(*inputs), module(*inputs))
    targets = [node.target for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert sum(target is torch.ops.deform.attn_softmax for target in targets) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_training_keeps_both_operators(dynamic, device):
    """The forward and the backward graph each hold one node, and no step of the eager form."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    inputs = draw(CASE, device=device)
    module = Sampling().to(device)
    names: list[list[str]] = []

    def keep(graph, example):
        names.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return make_boxed_func(graph.forward)

    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    trained = torch.compile(module, fullgraph=True, backend=backend, dynamic=dynamic)
    result = trained(*inputs)
    torch.testing.assert_close(result, module(*inputs))
    (gradient,) = torch.autograd.grad(result.sum(), module.projection.weight)
    (expected,) = torch.autograd.grad(module(*inputs).sum(), module.projection.weight)
    torch.testing.assert_close(gradient, expected)
    forward, backward = names
    assert forward.count("deform.attn_softmax.default") == 1
    assert backward.count("deform.attn_softmax_backward.default") == 1
    assert not any("index" in name for name in forward + backward)


def test_eager_backend_exports_without_the_library(device):
    inputs = draw(CASE, device=device)

    class Eager(torch.nn.Module):
        def forward(self, *tensors):
            return call(CASE, "attn_softmax", "deform_eager")(*tensors)

    program = torch.export.export(Eager(), inputs).run_decompositions()
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert not any("deform" in name for name in names)
    expected = call(CASE, "attn_softmax")(*inputs)
    torch.testing.assert_close(program.module()(*inputs), expected, rtol=1e-5, atol=1e-5)


def test_aot_inductor_package_calls_the_operator(tmp_path):
    inputs = draw(CASE)
    module = Sampling().eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=[{0: batch}] * 2)
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "sampling.pt2")
        )
        served = torch._inductor.aoti_load_package(path)
        for count in (1, 3):
            more = [torch.cat([tensor, tensor])[:count] for tensor in inputs]
            torch.testing.assert_close(served(*more), module(*more))
