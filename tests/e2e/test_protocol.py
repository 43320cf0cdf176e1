"""The server's protocols as unmodified clients see them: grpcio, grpc_health, tritonclient."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from server_process import BUILD, ServerProcess
from tritonclient.utils import InferenceServerException

SERVER = BUILD / "bin/deform-server"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def client(server: ServerProcess):
    """tritonclient against the shared server."""
    with triton.InferenceServerClient(server.grpc_address) as opened:
        yield opened


def picture_input(client: triton.InferenceServerClient, batch: int) -> triton.InferInput:
    """A random float32 tensor as the model's metadata describes it, `batch` pictures."""
    spec = client.get_model_metadata("shapes").inputs[0]
    shape = [batch, *spec.shape[1:]]
    tensor = triton.InferInput(spec.name, shape, spec.datatype)
    values = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    tensor.set_data_from_numpy(values)
    return tensor


def test_tritonclient_finds_a_live_and_ready_server(client: triton.InferenceServerClient):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shapes")
    assert client.is_model_ready("shapes", "1")
    assert not client.is_model_ready("shapes", "999")
    assert not client.is_model_ready("no-such-model")


def test_tritonclient_reads_metadata_with_the_batch_dimension(
    client: triton.InferenceServerClient,
):
    assert client.get_server_metadata().name == "deform-server"
    metadata = client.get_model_metadata("shapes")
    assert list(metadata.versions) == ["1"]
    (pixels,) = metadata.inputs
    assert (pixels.name, pixels.datatype) == ("pixel_values", "FP32")
    assert pixels.shape[0] == -1 and pixels.shape[1] == 3
    assert [output.name for output in metadata.outputs] == [
        "class_queries_logits",
        "masks_queries_logits",
    ]
    assert all(output.shape[0] == -1 for output in metadata.outputs)


@pytest.mark.parametrize("batch", [1, 2])
def test_tritonclient_infers_on_the_networks_tensors(
    client: triton.InferenceServerClient, batch: int
):
    result = client.infer("shapes", [picture_input(client, batch)], request_id="17")
    response = result.get_response()
    assert response.id == "17"
    for output in client.get_model_metadata("shapes").outputs:
        values = result.as_numpy(output.name)
        assert values.shape == (batch, *output.shape[1:])
        assert values.dtype == np.float32
        assert np.isfinite(values).all()


def test_tritonclient_gets_only_the_outputs_it_asks_for(client: triton.InferenceServerClient):
    outputs = [triton.InferRequestedOutput("class_queries_logits")]
    result = client.infer("shapes", [picture_input(client, 1)], outputs=outputs)
    assert [output.name for output in result.get_response().outputs] == ["class_queries_logits"]


@pytest.mark.parametrize(
    ("model", "version", "code"),
    [
        ("no-such-model", "", "StatusCode.NOT_FOUND"),
        ("shapes", "999", "StatusCode.NOT_FOUND"),
        ("shapes", "newest", "StatusCode.INVALID_ARGUMENT"),
    ],
)
def test_tritonclient_is_told_what_is_wrong(
    client: triton.InferenceServerClient, model: str, version: str, code: str
):
    with pytest.raises(InferenceServerException) as error:
        client.infer(model, [picture_input(client, 1)], model_version=version)
    assert error.value.status() == code


def test_health_knows_the_server_its_services_and_its_models(server: ServerProcess):
    with grpc.insecure_channel(server.grpc_address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in (
            "",
            "deform.segmentation.v1.Segmentation",
            "inference.GRPCInferenceService",
            "models/shapes",
        ):
            request = health_pb2.HealthCheckRequest(service=service)
            assert health.Check(request, timeout=10).status == SERVING, service
        with pytest.raises(grpc.RpcError) as error:
            health.Check(health_pb2.HealthCheckRequest(service="models/none"), timeout=10)
        assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_reflection_lists_the_services(server: ServerProcess):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
        names = {service.name for service in answer.list_services_response.service}
    assert names >= {
        "deform.segmentation.v1.Segmentation",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
    }


def test_reflection_describes_a_service(server: ServerProcess):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="deform.segmentation.v1.Segmentation"
        )
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
    assert any(
        b"SegmentRequest" in file for file in answer.file_descriptor_response.file_descriptor_proto
    )


def test_an_error_carries_details_that_grpcio_clients_can_read(server: ServerProcess):
    from deform.segmentation.v1 import segmentation_pb2 as pb
    from deform.segmentation.v1 import segmentation_pb2_grpc as rpc
    from google.rpc import error_details_pb2, status_pb2

    with grpc.insecure_channel(server.grpc_address) as channel:
        request = pb.SegmentRequest(model="shapes", encoded=b"no picture", version=-1)
        with pytest.raises(grpc.RpcError) as error:
            rpc.SegmentationStub(channel).Segment(
                request, timeout=10, metadata=[("x-request-id", "e2e-1")]
            )
    failed = error.value
    assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert ("x-request-id", "e2e-1") in {tuple(item) for item in failed.initial_metadata()}
    status = status_pb2.Status.FromString(
        dict(failed.trailing_metadata())["grpc-status-details-bin"]
    )
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info) and status.details[1].Unpack(bad_request)
    assert (info.domain, info.reason) == ("deform", "INVALID_FIELD")
    assert [violation.field for violation in bad_request.field_violations] == ["version"]


@pytest.mark.parametrize(
    "method",
    ["deform.segmentation.v1.Segmentation/Segment", "inference.GRPCInferenceService/ModelInfer"],
)
def test_bytes_that_are_no_message_are_refused(server: ServerProcess, method: str):
    with grpc.insecure_channel(server.grpc_address) as channel:
        for payload in (b"\xff" * 40, b"\x0a\x02\xff\xfe", b"\x22\xff\xff\xff\x7f"):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(f"/{method}")(payload, timeout=10)
            assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert server.is_ready()


def test_a_draining_server_says_so_and_serves_and_a_second_signal_ends_it():
    with ServerProcess("--drain_delay=3600s") as own:
        with grpc.insecure_channel(own.grpc_address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watch = health.Watch(health_pb2.HealthCheckRequest(service=""))
            assert next(watch).status == SERVING
            own.process.send_signal(signal.SIGTERM)
            assert next(watch).status == NOT_SERVING
            assert own.get("/readyz") == (503, "draining\n")
            assert own.get("/healthz")[0] == 200
            with triton.InferenceServerClient(own.grpc_address) as client:
                assert not client.is_server_ready()
                assert client.infer("shapes", [picture_input(client, 1)]) is not None
            own.process.send_signal(signal.SIGTERM)
            assert own.process.wait(60) == 128 + signal.SIGTERM


def test_sigterm_finishes_accepted_calls_ends_watches_and_exits_0():
    with ServerProcess() as own, grpc.insecure_channel(own.grpc_address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""))
        assert next(watch).status == SERVING
        outcomes: list[object] = []
        done = threading.Event()

        def answered(result: object, error: object) -> None:
            outcomes.append(error)
            done.set()

        with triton.InferenceServerClient(own.grpc_address) as client:
            client.async_infer("shapes", [picture_input(client, 8)], answered)
            in_flight = 'deform_requests_in_flight{model="shapes"}'
            while not done.is_set() and own.metrics().get(in_flight, 0) < 1:
                pass
            own.process.send_signal(signal.SIGTERM)
            assert done.wait(60)
        assert outcomes == [None]
        with pytest.raises(grpc.RpcError) as error:
            for _ in watch:
                pass
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert own.process.wait(60) == 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """deform-server run to its end, both streams as text."""
    return subprocess.run(
        [str(SERVER), *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_check_tells_sound_from_faulty(server: ServerProcess, tmp_path: Path):
    from server_process import REPOSITORY

    sound = run("--check", f"--model_repository={REPOSITORY}")
    assert (sound.returncode, "shapes/1: ok" in sound.stdout) == (0, True), sound.stdout
    (tmp_path / "shapes/1").mkdir(parents=True)
    faulty = run("--check", f"--model_repository={tmp_path}")
    assert faulty.returncode == 1
    assert "package.json" in faulty.stdout
    assert str(tmp_path) not in faulty.stdout


def test_every_fault_of_the_configuration_is_told(tmp_path: Path):
    config = tmp_path / "config.json"
    config.write_text('{"max_batches": 3, "device": "tpu", "grpc_address": "0.0.0.0:8001"}')
    result = run("--check", f"--config={config}", "--max_batch=0")
    assert result.returncode == 1
    for name in ("max_batches", "device", "grpc_address", "max_batch: "):
        assert name in result.stderr


def test_a_repository_without_models_ends_the_server(tmp_path: Path):
    ports = ("--grpc_address=127.0.0.1:0", "--admin_address=127.0.0.1:0")
    result = run(*ports, f"--model_repository={tmp_path}", "--device=cpu")
    assert result.returncode == 1
    assert '"event":"failed"' in result.stderr


def test_version_and_help_need_no_models(tmp_path: Path):
    assert run("--version").stdout.startswith("deform-server ")
    assert "--max_queue_delay" in run("--help").stdout


def test_openmp_threads_sleep_while_they_wait(server: ServerProcess):
    # /proc shows the environment that the process was started with: the second time.
    environment = Path(f"/proc/{server.process.pid}/environ").read_bytes().split(b"\0")
    expected = os.environ.get("OMP_WAIT_POLICY", "PASSIVE")
    assert f"OMP_WAIT_POLICY={expected}".encode() in environment
