"""mmcv's attention on the operator, against mmcv-lite's own module in tensor operations."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch
from deform_ops.errors import NothingPatchedError
from deform_ops.registry import Backend
from torch import Tensor, nn

pytest.importorskip("mmcv", reason="mmcv-lite isn't installed")
integration = importlib.import_module("deform_ops.integrations.mmcv")
mmcv_attention = importlib.import_module("mmcv.ops.multi_scale_deform_attn")

LEVELS = torch.tensor([[6, 5], [3, 4]])
STARTS = torch.tensor([0, 30])
ROWS, DIM, QUERIES, BATCH = 42, 16, 7, 2


def theirs(**options) -> nn.Module:
    sizes = {"embed_dims": DIM, "num_heads": 4, "num_levels": 2, "num_points": 3, "dropout": 0.0}
    torch.manual_seed(0)
    made = mmcv_attention.MultiScaleDeformableAttention(**{**sizes, **options})
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return made


def arguments(device: torch.device, *, batch_first: bool, numbers: int = 2) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def normal(rows: int) -> Tensor:
        tensor = torch.randn(BATCH, rows, DIM, generator=generator)
        return (tensor if batch_first else tensor.transpose(0, 1)).to(device)

    reference = torch.rand(BATCH, QUERIES, 2, numbers, generator=generator)
    return {
        "query": normal(QUERIES),
        "value": normal(ROWS),
        "query_pos": normal(QUERIES),
        "reference_points": reference.to(device),
        "spatial_shapes": LEVELS.to(device),
        "level_start_index": STARTS.to(device),
    }


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("numbers", [2, 4], ids=["points", "boxes"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_patched_module_answers_alike(batch_first, numbers, ratio, device):
    made = theirs(batch_first=batch_first, value_proj_ratio=ratio)
    # mmcv-lite has the tensor operations on the CPU only.
    expected = made(**arguments(torch.device("cpu"), batch_first=batch_first, numbers=numbers))
    assert integration.patch(made) == 1
    result = made.to(device)(**arguments(device, batch_first=batch_first, numbers=numbers))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_optional_arguments_mean_what_mmcv_says():
    made = theirs(batch_first=True)
    own = integration.MultiScaleDeformableAttention(DIM, 4, 2, 3, dropout=0.0, batch_first=True)
    own.load_state_dict(made.state_dict(), strict=True)
    base = arguments(torch.device("cpu"), batch_first=True)
    mask = torch.rand(BATCH, ROWS, generator=torch.Generator().manual_seed(2)) < 0.4
    identity = torch.randn(BATCH, QUERIES, DIM)
    rows = torch.randn(BATCH, ROWS, DIM)
    self_attention = {
        "query": rows,
        "value": None,
        "query_pos": None,
        "reference_points": torch.rand(BATCH, ROWS, 2, 2),
    }
    for changes in (
        {"key_padding_mask": mask},
        {"identity": identity},
        {"residual": identity},
        {"query_pos": None},
        self_attention,
        {"key": rows, "reg_branches": None},
    ):
        given = {**base, **changes}
        torch.testing.assert_close(own(**given), made(**given), rtol=1e-5, atol=1e-5)
    without_starts = {**base, "level_start_index": None}
    torch.testing.assert_close(own(**without_starts), made(**base), rtol=1e-5, atol=1e-5)


def test_patch_reaches_into_a_model_and_nowhere_else():
    model = nn.ModuleList([theirs(), nn.Sequential(theirs())])
    other = copy.deepcopy(model)
    keys = list(model.state_dict())
    assert integration.patch(model, backend=Backend.EAGER) == 2
    assert integration.patch(model) == 2
    assert list(model.state_dict()) == keys
    assert type(model[1][0]) is integration.MultiScaleDeformableAttention
    assert type(other[0]) is mmcv_attention.MultiScaleDeformableAttention


def test_named_backend_is_what_runs():
    made = theirs()
    integration.patch(made, backend=Backend.EAGER)
    with torch.profiler.profile() as profile:
        made(**arguments(torch.device("cpu"), batch_first=False))
    names = [event.key for event in profile.key_averages() if event.key.startswith("deform")]
    assert all(name.startswith("deform_eager") for name in names)


def test_subclass_with_a_forward_of_its_own_stays():
    class Other(mmcv_attention.MultiScaleDeformableAttention):
        def forward(self, query: Tensor) -> Tensor:
            return query

    model = nn.Sequential(Other())
    assert integration.patch(model, strict=False) == 0
    assert type(model[0]) is Other


def test_dropout_works_in_training_only():
    made = theirs(dropout=0.5)
    integration.patch(made)
    given = arguments(torch.device("cpu"), batch_first=False)
    with torch.no_grad():
        trained = made.train()(**given) - given["query"]
        plain = made.eval()(**given) - given["query"]
    kept = trained != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(trained[kept], 2 * plain[kept], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("missing", ["reference_points", "spatial_shapes"])
def test_missing_argument_is_named(missing):
    made = theirs()
    integration.patch(made)
    given = arguments(torch.device("cpu"), batch_first=False)
    with pytest.raises(ValueError, match="reference_points and spatial_shapes are required"):
        made(**{**given, missing: None})


def test_patched_module_is_one_node_of_a_graph():
    made = theirs(batch_first=True).eval()
    integration.patch(made)
    given = arguments(torch.device("cpu"), batch_first=True)
    with torch.no_grad():
        program = torch.export.export(made, (), kwargs=given)
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.deform.msda_softmax.default) == 1


def test_model_without_the_module_is_refused():
    plain = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(NothingPatchedError, match="Sequential has no deformable attention of mmcv"):
        integration.patch(plain)
    assert integration.patch(plain, strict=False) == 0
