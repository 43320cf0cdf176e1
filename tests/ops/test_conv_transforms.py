"""conv under autograd, torch.func, fake tensors, autocast, export, compile and AOTInductor."""

from __future__ import annotations

import pytest
import torch
from conv_operands import Case, call, direction, draw, to_torchvision
from torch.autograd import forward_ad

CASE = Case((5, 4), groups=2, offset_groups=2, channels=3, outputs=2)

NAMESPACES = ["deform", "deform_cpu", "deform_cuda", "deform_jit", "deform_reference"]


def leaves(tensors) -> list[torch.Tensor]:
    return [tensor.clone().requires_grad_() for tensor in tensors]


def test_functional_gradient(device):
    inputs = draw(CASE, torch.float64, device)
    run = call(CASE)
    got = torch.func.grad(lambda *t: run(*t).square().sum(), argnums=(0, 1, 2, 3, 4))(*inputs)
    wanted = leaves(inputs)
    run(*wanted).square().sum().backward()
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs.grad)


@pytest.mark.parametrize("backend", ["deform", "deform_reference"])
def test_vmap_equals_a_loop(backend, device):
    inputs = draw(CASE, torch.float64, device)
    run = call(CASE, backend=backend)
    stacked = [torch.stack([tensor, tensor * 0.9, tensor * 1.1]) for tensor in inputs]
    mapped = torch.func.vmap(run)(*stacked)
    expected = torch.stack([run(*(tensor[i] for tensor in stacked)) for i in range(3)])
    torch.testing.assert_close(mapped, expected)
    shared = torch.func.vmap(run, in_dims=(None, 0, None, None, None))
    expected = torch.stack([run(inputs[0], stacked[1][i], *inputs[2:]) for i in range(3)])
    torch.testing.assert_close(shared(inputs[0], stacked[1], *inputs[2:]), expected)


def test_vmap_of_the_backward_operator_equals_a_loop(device):
    inputs = draw(CASE, torch.float64, device)
    grads = torch.stack([direction(CASE, inputs[0], seed) for seed in range(3)])
    run = call(CASE, name="conv_backward")
    mapped = torch.func.vmap(run, in_dims=(0, *[None] * 5))(grads, *inputs)
    for index, result in enumerate(mapped):
        expected = torch.stack([run(grad, *inputs)[index] for grad in grads])
        torch.testing.assert_close(result, expected)


def test_gradients_for_each_sample(device):
    """vmap over grad, as for gradients of single samples."""
    inputs = draw(CASE, torch.float64, device)
    stacked = [torch.stack([tensor, tensor * 0.9]) for tensor in inputs]

    def loss(*operands):
        return call(CASE)(*operands).square().sum()

    mapped = torch.func.vmap(torch.func.grad(loss, argnums=3))(*stacked)
    for i in range(2):
        wanted = leaves(tensor[i] for tensor in stacked)
        loss(*wanted).backward()
        torch.testing.assert_close(mapped[i], wanted[3].grad)


def test_forward_mode_equals_finite_differences(device):
    inputs = draw(CASE, torch.float64, device)
    tangent = torch.randn_like(inputs[1])

    def run(offset):
        return call(CASE)(inputs[0], offset, *inputs[2:])

    step = 1e-6
    expected = (run(inputs[1] + step * tangent) - run(inputs[1] - step * tangent)) / (2 * step)
    with forward_ad.dual_level():
        got = forward_ad.unpack_dual(run(forward_ad.make_dual(inputs[1], tangent))).tangent
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-7)


def test_no_gradient_wanted_leaves_no_graph(device):
    inputs = draw(CASE, device=device)
    fused = call(CASE, backend=f"deform_{device.type}")(*inputs)
    with torch.no_grad():
        assert torch.equal(call(CASE)(*leaves(inputs)), fused)
    with torch.inference_mode():
        assert torch.equal(call(CASE)(*inputs), fused)
    assert not call(CASE)(*inputs).requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_casts_all_but_offsets(dtype, device):
    inputs = draw(CASE, device=device)
    cast = [t if i == 1 else t.to(dtype) for i, t in enumerate(inputs)]
    expected = call(CASE)(*cast)
    with torch.autocast(device.type, dtype=dtype):
        result = call(CASE)(*inputs)
        maps, offsets, masks = to_torchvision(*inputs[:3])
        drop_in = torch.ops.deform.deform_conv2d(
            maps, offsets, inputs[3], inputs[4], [1, 1], [1, 1], [1, 1], masks
        )
    assert result.dtype == dtype
    assert torch.equal(result, expected)
    assert torch.equal(drop_in.permute(0, 2, 3, 1), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_training_under_autocast_gives_gradients_of_the_parameters_types(dtype, device):
    inputs = leaves(draw(CASE, device=device))
    with torch.autocast(device.type, dtype=dtype):
        call(CASE)(*inputs).float().sum().backward()
    assert all(t.grad is not None and t.grad.dtype == t.dtype for t in inputs)


@pytest.mark.parametrize("backend", NAMESPACES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_meta_tensors_give_shapes_and_types(backend, dtype):
    inputs = [t.to("meta") for t in draw(CASE, dtype, offset_dtype=torch.float32)]
    result = call(CASE, backend=backend)(*inputs)
    assert (result.shape, result.dtype) == ((2, 5, 4, 4), dtype)
    assert result.is_contiguous()
    gradients = call(CASE, backend, "conv_backward")(result, *inputs)
    for gradient, operand in zip(gradients, inputs, strict=True):
        assert (gradient.shape, gradient.dtype) == (operand.shape, operand.dtype)
    absent = call(CASE, backend, "conv_backward")(result, *inputs[:2], None, inputs[3], None)
    assert absent[2].shape == absent[4].shape == (0,)


@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("backend", ["deform", "deform_eager"])
def test_opcheck(backend, wants_gradient, device):
    inputs = draw(CASE, device=device)
    inputs = leaves(inputs) if wants_gradient else inputs
    overload = getattr(torch.ops, backend).conv.default
    torch.library.opcheck(overload, (*inputs, *CASE.parameters))


def test_opcheck_of_the_backward_operator(device):
    inputs = draw(CASE, device=device)
    overload = torch.ops.deform.conv_backward.default
    torch.library.opcheck(overload, (direction(CASE, inputs[0]), *inputs, *CASE.parameters))


class Convolution(torch.nn.Module):
    """The operator behind a layer with parameters that want gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(6, 6)
        weight, bias = draw(CASE)[3:]
        self.weight, self.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)

    def forward(self, value, offset, mask):
        return call(CASE)(self.projection(value), offset, mask, self.weight, self.bias) + 1


def operator_calls(program: torch.export.ExportedProgram) -> int:
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return targets.count(torch.ops.deform.conv.default)


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_export_keeps_one_node_for_any_batch(gradients, strict, device):
    inputs = tuple(draw(CASE, device=device)[:3])
    module = Convolution().to(device).eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.set_grad_enabled(gradients):
        program = torch.export.export(
            module, inputs, dynamic_shapes=[{0: batch}] * 3, strict=strict
        )
    lowered = program.run_decompositions()
    assert operator_calls(program) == operator_calls(lowered) == 1
    names = [str(n.target) for n in lowered.graph.nodes if n.op == "call_function"]
    assert not any("index_select" in name or "embedding" in name for name in names)
    with torch.no_grad():
        for count in (1, 3):
            more = [torch.cat([tensor, tensor])[:count] for tensor in inputs]
            torch.testing.assert_close(program.module()(*more), module(*more))


def test_export_for_maps_of_any_size(device):
    """The output's size is tied to the map's, by the stride of 2 here."""

    class DropIn(torch.nn.Module):
        def forward(self, maps, offsets, weight):
            return torch.ops.deform.deform_conv2d(maps, offsets, weight, None, [2, 2], [1, 1])

    def inputs(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
        case = Case((2 * rows, 2 * columns), 1, stride=(2, 2), mask=False)
        value, offset, _, weight, _ = draw(case, device=device)
        return *to_torchvision(value, offset, None)[:2], weight

    rows, columns = torch.export.Dim("rows", min=2, max=64), torch.export.Dim("columns", max=64)
    program = torch.export.export(
        DropIn(),
        inputs(4, 6),
        dynamic_shapes=[{2: 2 * rows, 3: 2 * columns}, {2: rows, 3: columns}, {}],
    )
    for size in ((4, 6), (3, 2), (10, 5)):
        torch.testing.assert_close(program.module()(*inputs(*size)), DropIn()(*inputs(*size)))


def test_compile_in_one_graph(device):
    inputs = draw(CASE, device=device)[:3]
    module = Convolution().to(device)
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph

    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, backend=keep)
        torch.testing.assert_close(compiled(*inputs), module(*inputs))
    targets = [node.target for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert sum(target is torch.ops.deform.conv for target in targets) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_training_keeps_both_operators(dynamic, device):
    """The forward and the backward graph each hold one node, and no step of the eager form."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    inputs = draw(CASE, device=device)[:3]
    module = Convolution().to(device)
    names: list[list[str]] = []

    def keep(graph, example):
        names.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return make_boxed_func(graph.forward)

    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    trained = torch.compile(module, fullgraph=True, backend=backend, dynamic=dynamic)
    parameters = list(module.parameters())
    got = torch.autograd.grad(trained(*inputs).sum(), parameters)
    expected = torch.autograd.grad(module(*inputs).sum(), parameters)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    forward, backward = names
    assert forward.count("deform.conv.default") == 1
    assert backward.count("deform.conv_backward.default") == 1
    assert not any("index" in name for name in forward + backward)


def test_eager_backend_exports_without_the_library(device):
    inputs = draw(CASE, device=device)

    class Eager(torch.nn.Module):
        def forward(self, *tensors):
            return call(CASE, backend="deform_eager")(*tensors)

    program = torch.export.export(Eager(), tuple(inputs)).run_decompositions()
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert not any("deform" in name for name in names)
    expected = call(CASE)(*inputs)
    torch.testing.assert_close(program.module()(*inputs), expected, rtol=1e-5, atol=1e-5)


def test_aot_inductor_package_calls_the_operator(tmp_path):
    inputs = tuple(draw(CASE)[:3])
    module = Convolution().eval()
    batch = torch.export.Dim("batch", min=1, max=8)
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=[{0: batch}] * 3)
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "convolution.pt2")
        )
        served = torch._inductor.aoti_load_package(path)
        for count in (1, 3):
            more = [torch.cat([tensor, tensor])[:count] for tensor in inputs]
            torch.testing.assert_close(served(*more), module(*more))
