"""The callables in graphs: which operator is recorded, by export, compilation and transforms."""

from __future__ import annotations

import pytest
import torch
from deform_ops.registry import Backend, msda
from msda_operands import Case, draw
from registry_calls import CALLS

CASE = Case(((5, 4), (3, 2)), batch=2, queries=4, heads=2, channels=3, points=2)


@pytest.fixture(params=CALLS, ids=str)
def call(request):
    return request.param


class Calls(torch.nn.Module):
    def __init__(self, operator, options) -> None:
        super().__init__()
        self.operator, self.options = operator, options

    def forward(self, *operands):
        return self.operator(*operands, **self.options)


def operators_of(graph: torch.fx.Graph) -> list[str]:
    targets = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return [target.removesuffix(".default") for target in targets if target.startswith("deform")]


def compiled_operators(module: torch.nn.Module, operands) -> list[str]:
    graphs = []

    def keep(graph, example):
        graphs.append(graph.graph)
        return graph

    torch.compiler.reset()
    torch.compile(module, fullgraph=True, backend=keep)(*operands)
    return operators_of(graphs[0])


def exported_operators(module: torch.nn.Module, operands) -> list[str]:
    return operators_of(torch.export.export(module, tuple(operands)).graph)


@pytest.mark.parametrize("recorded", [compiled_operators, exported_operators])
def test_open_choice_is_one_public_node_in_a_graph(recorded, call, device):
    operands, options = call.draw(device)
    module = Calls(call.operator, options)
    assert recorded(module, operands) == [f"deform.{call.operator.name}"]


@pytest.mark.parametrize("recorded", [compiled_operators, exported_operators])
def test_named_backend_is_its_own_node_in_a_graph(recorded, call, device):
    operands, options = call.draw(device)
    module = Calls(call.operator, {**options, "backend": Backend(device.type)})
    assert recorded(module, operands) == [f"deform_{device.type}.{call.operator.name}"]


@pytest.mark.parametrize("recorded", [compiled_operators, exported_operators])
def test_asking_for_an_accumulator_chooses_while_tracing(recorded, device):
    operands = tuple(draw(CASE, device=device))
    module = Calls(msda, {"fp32acc": False})
    assert recorded(module, operands) == [f"deform_{device.type}.msda"]


def test_transforms_and_fake_tensors_take_the_public_operator(device):
    operands = draw(CASE, torch.float64, device)
    expected = msda(*operands)
    mapped = torch.func.vmap(lambda value: msda(value, *list(operands)[1:]))(
        torch.stack([operands.value, 2 * operands.value])
    )
    torch.testing.assert_close(mapped, torch.stack([expected, 2 * expected]))
    on_meta = msda(*(tensor.to("meta") for tensor in operands))
    assert (on_meta.shape, on_meta.device.type) == (expected.shape, "meta")
    traced = torch.fx.experimental.proxy_tensor.make_fx(msda, tracing_mode="fake")(*operands)
    assert operators_of(traced.graph) == ["deform.msda"]
