"""Real packages of both architectures, compiled for this machine's processor: minutes each."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from deform_models.errors import PackagingError
from deform_models.package import manifest, parity, toolchain
from deform_models.package.build import BuildRequest, build_package
from deform_models.package.checkpoint import load_model, read_checkpoint
from deform_models.package.pictures import network_inputs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def compiler():
    toolchain.choose_compiler()


def assert_packaged(request: BuildRequest, sizes: tuple[int, ...]) -> None:
    """The package holds, and its artifact gives the model's outputs at every batch of `sizes`."""
    assert build_package(request) == "built"
    package = manifest.verify_package(request.out)
    (report,) = package["parity"]
    assert report["batch"] == [1, 2, 4]
    assert max(report["max_abs_difference"].values()) < 1e-4 < min(report["spread"].values())
    checkpoint = read_checkpoint(request.checkpoint)
    network = checkpoint.recipe.network(load_model(checkpoint))
    pictures = network_inputs(package["preprocess"], 4, seed=77)
    found = parity.run_packaged(
        request.out / package["artifacts"][0]["file"], pictures, list(sizes)
    )
    for batch in sizes:
        with torch.inference_mode():
            wanted = network(*(tensor[:batch] for tensor in pictures))
        for left, right in zip(found[batch], wanted, strict=True):
            assert torch.allclose(left, right, atol=1e-4 * max(1, float(right.abs().max())))
    # The artifact itself refuses what a server must never let through.
    with pytest.raises(PackagingError, match="at batch 5"):
        parity.run_packaged(
            request.out / package["artifacts"][0]["file"],
            network_inputs(package["preprocess"], 5, seed=1),
            [5],
        )
    assert build_package(dataclasses.replace(request, reuse=True)) == "unchanged"


def test_a_mask2former_package_runs_any_batch(mask2former_folder, tmp_path):
    request = BuildRequest(
        checkpoint=mask2former_folder,
        out=tmp_path / "tiny" / "1",
        name="tiny",
        categories=mask2former_folder / "categories.json",
        max_batch=4,
    )
    assert_packaged(request, (1, 3, 4))


def test_a_deformable_detr_package_for_avx2_runs_any_batch(detr_folder, tmp_path):
    request = BuildRequest(
        checkpoint=detr_folder,
        out=tmp_path / "detr" / "1",
        name="detr",
        height=96,
        width=128,
        max_batch=4,
        cpu_isa="avx2",
    )
    assert_packaged(request, (1, 3, 4))
