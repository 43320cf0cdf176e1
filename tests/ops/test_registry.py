"""The callables: which backend they take and say they take, and what goes into a graph."""

from __future__ import annotations

import re
import warnings
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from accuracy import assert_accurate
from deform_ops.errors import (
    BackendFallbackWarning,
    KernelBuildError,
    KernelDownloadError,
    KernelNotProvidedError,
    NoBackendError,
)
from deform_ops.registry import (
    Backend,
    CallContext,
    Method,
    Resolution,
    conv,
    enable_backend,
    msda,
    selection,
)
from deform_ops.registry.msda import select_backend
from msda_operands import Case, draw
from registry_calls import CALLS

CASE = Case(((5, 4), (3, 2)), batch=2, queries=4, heads=2, channels=3, points=2)
CUDA_CALL = CallContext("msda", torch.device("cuda"), torch.bfloat16, 32, 4, 4, True, sm=90)


@pytest.fixture(params=CALLS, ids=str)
def call(request):
    return request.param


@pytest.fixture
def no_memory():
    """Choices and warnings start afresh, and leave no trace."""

    def forget() -> None:
        selection.selected.cache_clear()
        selection._ask.cache_clear()
        selection._warned.clear()

    forget()
    yield
    forget()


@pytest.fixture
def gpu_with_jit_only(no_memory, monkeypatch):
    """The policy answers as it does for a GPU whose architecture wasn't compiled for."""
    answer = selection._Answer(Backend.CPU, ((Backend.CUDA, "compiled for SM 8.0"),), True, ())
    monkeypatch.setattr(selection, "_ask", lambda context: answer)


def test_open_and_named_backends_agree_with_the_reference(call, device):
    operands, options = call.draw(device)
    expected = call.operator.reference(*operands, **options)
    own = (Backend.CUDA, Backend.JIT) if device.type == "cuda" else (Backend.CPU,)
    for backend in (None, *own, Backend.EAGER):
        result = call.operator(*operands, **options, backend=backend)
        assert_accurate(result, expected, torch.float32)


def test_open_choice_is_the_devices_own_backend(call, device):
    operands, options = call.draw(device)
    resolution = call.operator.resolve(*operands, **options)
    assert resolution.backend == device.type
    assert resolution.skipped == ()
    assert resolution.op == call.operator.name
    with pytest.raises(FrozenInstanceError):
        resolution.backend = Backend.EAGER


def test_call_runs_the_operator_that_resolve_names(call, device):
    operands, options = call.draw(device)
    backend = call.operator.resolve(*operands, **options).backend
    with torch.profiler.profile() as profile:
        call.operator(*operands, **options)
    names = {event.key for event in profile.key_averages()}
    assert f"deform_{backend}::{call.operator.name}" in names


@pytest.mark.parametrize("method, softmax", [("softmax", False), (None, True), (Method.SOFTMAX, 0)])
def test_softmax_is_asked_for_either_way(method, softmax, device):
    operands = draw(CASE, device=device)
    expected = torch.ops.deform.msda_softmax(*operands)
    assert torch.equal(msda(*operands, method=method, softmax=softmax), expected)
    assert torch.equal(
        msda(*operands, method="linear", softmax=True), torch.ops.deform.msda(*operands)
    )


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="'softmin'"):
        msda(*draw(CASE), method="softmin")


def test_gradient_flows_through_the_open_choice(device):
    operands = draw(CASE, torch.float64, device)
    mine, theirs = (operands.value.clone().requires_grad_() for _ in range(2))
    msda(*operands.with_(value=mine)).square().sum().backward()
    msda(*operands.with_(value=theirs), backend=Backend.EAGER).square().sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)


def test_operands_are_positional_only():
    operands = draw(CASE)
    with pytest.raises(TypeError, match="positional-only"):
        msda(operands.value, *list(operands)[1:4], attention_weights=operands.attention_weights)


def test_backend_as_text_is_refused():
    for function in (msda, msda.resolve):
        with pytest.raises(TypeError, match="must be a deform_ops.registry.Backend or None"):
            function(*draw(CASE), backend="cpu")
    with pytest.raises(TypeError, match="must be a deform_ops.registry.Backend"):
        msda.load("cpu")


def test_bounded_forms_of_conv_give_the_same_result(device):
    operands, options = CALLS[2].draw(device)
    expected = conv.reference(*operands, **options)
    value, offset, weight = operands
    for bound in ({"max_bytes": 1 << 14}, {"lean": True}, {"max_bytes": 1 << 14, "lean": True}):
        for backend in (None, Backend.EAGER):
            result = conv(*operands, **options, **bound, backend=backend)
            assert_accurate(result, expected, torch.float32)
    for first in (0, 2):
        rows = conv(value, offset[:, first : first + 2], weight, **options, row0=first)
        assert_accurate(rows, expected[:, first : first + 2], torch.float32)


@pytest.mark.parametrize("bound", [{"max_bytes": 1 << 20}, {"row0": 1}, {"lean": True}], ids=str)
def test_bounded_forms_of_conv_are_one_backends_alone(bound):
    operands, options = CALLS[2].draw(torch.device("cpu"))
    (name,) = bound
    with pytest.raises(ValueError, match=f"conv: {name}: only .*EAGER.* not .*CPU"):
        conv(*operands, **options, **bound, backend=Backend.CPU)


def test_bound_that_is_too_small_says_the_least(device):
    operands, options = CALLS[2].draw(device)
    with pytest.raises(RuntimeError, match=r"max_bytes must be at least \d+ for these"):
        conv(*operands, **options, max_bytes=1)


def test_wrong_operand_is_named_whether_run_or_resolved():
    operands = draw(CASE)
    wrong = operands.with_(value=operands.value[0])
    for function in (msda, msda.resolve):
        with pytest.raises(RuntimeError, match="value must have 4 dimensions"):
            function(*wrong)


@pytest.mark.parametrize("backend", [Backend.CUDA, Backend.JIT])
def test_gpu_backend_refuses_tensors_on_the_cpu(backend):
    for function in (msda, msda.resolve):
        with pytest.raises(NoBackendError, match=f"{backend} takes tensors on cuda, .* on cpu"):
            function(*draw(CASE), backend=backend)


def test_load_says_where_the_kernels_come_from(library):
    assert msda.load(Backend.CPU).source == f"compiled into {library}"
    assert msda.load(Backend.EAGER).source == "tensor operations of PyTorch"


def test_load_finds_or_compiles_the_run_time_kernels_of_a_call(call, cuda):
    operands, options = call.draw(cuda)
    name, origins = call.operator.name, {"cache", "index", "compiled"}
    for given in ([], operands):
        loaded = call.operator.load(Backend.JIT, *given, **(options if given else {}))
        origin, key = loaded.source.split(": ")
        assert origin in origins and re.match(rf"{name}(_\w+)?-sm\d+-", key)
    operands[0].requires_grad_()
    sources = call.operator.load(Backend.JIT, *operands, **options).source.split(", ")
    assert sources[0].split(": ")[1] == key
    assert len(sources) > 1
    assert all(f": {name}_backward" in source for source in sources[1:])


def test_load_names_the_operand_that_is_wrong(cuda):
    operands = draw(CASE, device=cuda)
    with pytest.raises(RuntimeError, match="value must have 4 dimensions"):
        msda.load(Backend.JIT, operands.value[0], *list(operands)[1:5])


def test_jit_takes_over_where_cuda_is_disabled(no_memory, cuda):
    operands = draw(CASE, device=cuda)
    expected = msda(*operands, backend=Backend.CUDA)
    enable_backend(Backend.CUDA, False)
    try:
        resolution = msda.resolve(*operands)
        with pytest.warns(BackendFallbackWarning, match="msda runs on jit; cuda: disabled"):
            result = msda(*operands)
        assert torch.equal(torch.ops.deform.msda(*operands), result)
    finally:
        enable_backend(Backend.CUDA, True)
    assert resolution.backend is Backend.JIT
    assert resolution.skipped == ((Backend.CUDA, "disabled"),)
    torch.testing.assert_close(result, expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("backend", [Backend.CUDA, Backend.JIT])
def test_load_of_a_gpu_backend_without_a_gpu_fails(backend):
    with pytest.raises(NoBackendError, match=f"{backend} needs a GPU"):
        msda.load(backend)


def test_disabled_backend_is_passed_over_and_comes_back(no_memory):
    operands = draw(CASE)
    enable_backend(Backend.CPU, False)
    try:
        for function in (msda, msda.resolve):
            with pytest.raises(NoBackendError, match="no backend can run a call on cpu") as caught:
                function(*operands)
            assert "cpu: disabled" in str(caught.value)
            with pytest.raises(NoBackendError, match="cpu can't run on cpu: disabled"):
                function(*operands, backend=Backend.CPU)
    finally:
        enable_backend(Backend.CPU, True)
    assert msda.resolve(*operands).backend is Backend.CPU


def test_fallback_warns_once_for_each_reason_and_operator(gpu_with_jit_only):
    operands = draw(CASE)
    with pytest.warns(
        BackendFallbackWarning, match="msda runs on cpu; cuda: compiled for SM 8.0"
    ) as caught:
        msda(*operands)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        msda(*operands)
        # Another call with the same reason.
        msda(*draw(replace(CASE, channels=5)))


def test_fallback_warning_can_be_silenced(gpu_with_jit_only, monkeypatch):
    monkeypatch.setenv("DEFORM_FALLBACK_WARNINGS", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        msda(*draw(CASE))


def test_resolving_warns_of_nothing(gpu_with_jit_only):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolution = msda.resolve(*draw(CASE))
    assert resolution.skipped == ((Backend.CUDA, "compiled for SM 8.0"),)


@pytest.mark.parametrize(
    "kind", [KernelBuildError, KernelDownloadError, KernelNotProvidedError, NoBackendError]
)
def test_librarys_errors_come_as_their_own_classes(kind, monkeypatch):
    def fail(*_):
        raise RuntimeError(f"{kind.__name__}: msda: no compiler")

    monkeypatch.setattr(msda, "_run_on", fail)
    with pytest.raises(kind) as caught:
        msda(*draw(CASE))
    assert type(caught.value) is kind and str(caught.value) == "msda: no compiler"


def test_other_errors_of_a_call_stay_as_they_are(monkeypatch):
    error = RuntimeError("ValueError: out of luck")

    def fail(*_):
        raise error

    monkeypatch.setattr(msda, "_run_on", fail)
    with pytest.raises(RuntimeError) as caught:
        msda(*draw(CASE))
    assert caught.value is error


@pytest.mark.parametrize(
    "reason, kind",
    [("compiled for SM 8.0", KernelNotProvidedError), ("disabled", NoBackendError)],
)
def test_named_gpu_backend_without_kernels_says_why(reason, kind, no_memory, monkeypatch):
    answer = selection._Answer(Backend.JIT, ((Backend.CUDA, reason),), True, ())
    monkeypatch.setattr(selection, "_ask", lambda context: answer)
    with pytest.raises(NoBackendError, match=f"cuda can't run on cuda: {reason}") as caught:
        selection.check_runs(Backend.CUDA, CUDA_CALL)
    assert type(caught.value) is kind


def test_resolution_reads_as_lines():
    skipped = ((Backend.CUDA, "compiled for SM 8.0, but the GPU has SM 9.0"),)
    resolution = Resolution("msda", Backend.JIT, skipped, False, ("kernel of the cache",))
    assert repr(resolution).splitlines() == [
        "msda: jit",
        "  passed over cuda: compiled for SM 8.0, but the GPU has SM 9.0",
        "  value gradients are summed in the value's own type",
        "  kernel of the cache",
    ]


def test_choice_for_a_gpu_that_is_not_there():
    try:
        chosen = select_backend(CUDA_CALL).backend
    except NoBackendError as error:
        # A build without kernels for any GPU says so for each candidate.
        lines = str(error).splitlines()
        assert lines[0].startswith("msda: no backend can run a call on cuda in torch.bfloat16")
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["cuda", "jit"]
    else:
        assert chosen in (Backend.CUDA, Backend.JIT)


@pytest.mark.parametrize("only_float32", [True, False])
def test_half_precision_sums_are_for_gpus_that_can(only_float32, no_memory, monkeypatch):
    answer = selection._Answer(Backend.CUDA, (), only_float32, ())
    monkeypatch.setattr(selection, "_ask", lambda context: answer)
    assert select_backend(CUDA_CALL, fp32acc=False).fp32acc is only_float32
    assert select_backend(CUDA_CALL).fp32acc


def test_accumulation_is_in_float32_off_the_gpu():
    assert msda.resolve(*draw(CASE), fp32acc=False).fp32acc


def test_cuda_operator_is_told_how_to_accumulate():
    operands = [tensor.to("meta") for tensor in draw(CASE, torch.bfloat16)]
    told = []

    class Listen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
            # A last argument that is the schema's default doesn't get here.
            told.append(arguments[5] if len(arguments) > 5 else True)
            return operator(*arguments, **(keywords or {}))

    for fp32acc in (None, True, False):
        call = msda_call(operands)
        with Listen():
            msda._run_on(Backend.CUDA, call, fp32acc)
    assert told == [True, True, False]


def msda_call(operands):
    from deform_ops.registry.msda import _bind

    return _bind(*operands, False)
