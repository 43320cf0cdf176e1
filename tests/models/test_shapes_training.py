"""Training of the shapes model: the loss, matching, resuming and the exported folder."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from deform_models.shapes import losses
from deform_models.shapes import model as shapes_model
from deform_models.shapes.augment import augment
from deform_models.shapes.coco import CATEGORIES
from deform_models.shapes.pool import CHUNK, ScenePool
from deform_models.shapes.scenes import generate_scene
from deform_models.shapes.train import Options, Trainer, learning_rate
from torch.nn import functional
from transformers.models.mask2former.modeling_mask2former import Mask2FormerHungarianMatcher

SIDE = 64


def options(folder: Path) -> Options:
    return Options(
        checkpoint=folder / "checkpoint",
        export=None,
        seed=3,
        device=torch.device("cpu"),
        max_seconds=60.0,
        total_seconds=60.0,
        reserve_seconds=0.0,
        max_steps=1,
        batch=2,
        pool=CHUNK,
        start_scenes=CHUNK,
        workers=0,
        learning_rate=2e-2,
        evaluate=0,
        compile=False,
    )


@pytest.fixture(scope="module")
def pool() -> ScenePool:
    result = ScenePool(CHUNK, (SIDE, SIDE), first_seed=5)
    result.attach(torch.device("cpu"))
    result.draw_here(CHUNK)
    return result


def random_problem(seed: int) -> tuple[torch.Tensor, torch.Tensor, losses.Targets]:
    """Logits of 2 layers, 3 pictures, 6 queries, 4 classes with random truth."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 3, (3, 5, 5), generator=generator, dtype=torch.uint8)
    maps = blocks.repeat_interleave(4, 1).repeat_interleave(4, 2)[:, 1:17, 2:18]
    maps[1][maps[1] == 2] = 0
    labels = torch.tensor([[0, 3, 1, -1], [2, 2, -1, -1], [1, 0, 3, -1]])
    class_logits = torch.randn(2, 3, 6, 5, generator=generator)
    mask_logits = 3 * torch.randn(2, 3, 6, 8, 8, generator=generator)
    return class_logits, mask_logits, losses.make_targets(maps, labels, (8, 8))


def test_matching_is_the_cheapest_by_exhaustive_search() -> None:
    generator = np.random.default_rng(0)
    costs = generator.normal(size=(2, 3, 5, 4))
    counts = np.array([3, 1, 4])
    matched = losses.match(costs, counts)
    for layer, picture in itertools.product(range(2), range(3)):
        chosen = matched[:, (matched[0] == layer) & (matched[1] == picture)]
        total = costs[layer, picture, chosen[2], chosen[3]].sum()
        best = min(
            sum(costs[layer, picture, q, n] for n, q in enumerate(queries))
            for queries in itertools.permutations(range(5), int(counts[picture]))
        )
        assert sorted(chosen[3]) == list(range(counts[picture]))
        assert total == pytest.approx(best)


def test_matching_costs_follow_their_definition_in_float64() -> None:
    class_logits, mask_logits, targets = random_problem(1)
    costs = losses.matching_costs(class_logits, mask_logits, targets)
    for layer, picture, query in itertools.product(range(2), range(3), range(6)):
        for place in range(int((targets.labels[picture] >= 0).sum())):
            logits = mask_logits[layer, picture, query].double()
            truth = targets.coarse[picture, place].double()
            entropy = functional.binary_cross_entropy_with_logits(logits, truth)
            share = logits.sigmoid()
            dice = 1 - (2 * (share * truth).sum() + 1) / (share.sum() + truth.sum() + 1)
            label = targets.labels[picture, place]
            likely = class_logits[layer, picture, query].double().softmax(-1)[label]
            expected = 5 * entropy + 5 * dice - 2 * likely
            assert costs[layer, picture, query, place].item() == pytest.approx(
                expected.item(), abs=1e-4
            )


def test_matching_equals_hugging_face_on_hard_masks() -> None:
    """The reference samples points of the masks; with masks near the truth the pairs agree."""
    class_logits, mask_logits, targets = random_problem(2)
    # Queries 1 … 4 are near the segments, in a shuffled order, so that no near-ties are left.
    mask_logits[:, :, 1:5] = (12 * targets.coarse - 6)[None, :, [2, 0, 3, 1]] + (
        0.5 * mask_logits[:, :, 1:5]
    )
    matched = losses.match_on_host(
        losses.matching_costs(class_logits, mask_logits, targets), targets.labels
    )
    torch.manual_seed(0)
    reference = Mask2FormerHungarianMatcher(2.0, 5.0, 5.0, num_points=60_000)
    for layer in range(2):
        pairs = reference(
            mask_logits[layer],
            class_logits[layer],
            [targets.coarse[b, : int((targets.labels[b] >= 0).sum())] for b in range(3)],
            [targets.labels[b][targets.labels[b] >= 0] for b in range(3)],
        )
        for picture, (queries, places) in enumerate(pairs):
            mine = matched[:, (matched[0] == layer) & (matched[1] == picture)]
            assert dict(zip(mine[2].tolist(), mine[3].tolist(), strict=True)) == dict(
                zip(queries.tolist(), places.tolist(), strict=True)
            )


def test_perfect_logits_have_almost_no_loss_and_wrong_ones_much() -> None:
    scene = generate_scene(9, (SIDE, SIDE))
    maps = torch.from_numpy(scene.segment_map)[None]
    labels = torch.tensor([scene.labels])
    places, classes = labels.shape[1], len(CATEGORIES)
    targets = losses.make_targets(maps, labels, (SIDE // 2, SIDE // 2))
    masks = (targets.coarse * 2 - 1) * 20
    logits = torch.zeros(1, 1, places, classes + 1)
    logits[0, 0, torch.arange(places), labels[0]] = 20.0
    good, _ = losses.set_loss(logits, masks[None], targets)
    bad, _ = losses.set_loss(-logits, -masks[None], targets)
    assert good.item() < 1.0 < 20.0 < bad.item()


def test_gradients_reach_every_parameter_and_a_few_steps_lower_the_loss(
    tmp_path: Path, pool: ScenePool
) -> None:
    trainer = Trainer(options(tmp_path))
    images, maps, labels = pool.batch(torch.tensor([0, 1]))
    images, maps = augment(images, maps, torch.Generator().manual_seed(0))
    first, _ = trainer.loss(images, maps, labels)
    first.backward()
    missing = [n for n, p in trainer.model.named_parameters() if p.grad is None]
    assert missing == []
    for _ in range(6):
        optimizer = trainer.optimizer
        for group in optimizer.param_groups:
            group["lr"] = 3e-4
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        loss, _ = trainer.loss(images, maps, labels)
        loss.backward()
    assert loss.item() < 0.9 * first.item()


def test_resumed_training_is_the_same_as_training_on(tmp_path: Path, pool: ScenePool) -> None:
    settings = options(tmp_path)
    going_on = Trainer(settings)
    going_on.step(pool, 0.0)
    going_on.save(pool, 10.0)
    resumed = Trainer(settings)
    assert resumed.progress == going_on.progress
    assert resumed.progress.step == 1 and resumed.progress.spent_seconds == 10.0
    for trainer in (going_on, resumed):
        trainer.step(pool, 0.5)
    mine, theirs = going_on.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    averages = going_on.average.values, resumed.average.values
    assert all(torch.equal(averages[0][n], averages[1][n]) for n in averages[0])
    for a, b in zip(going_on.model.parameters(), resumed.model.parameters(), strict=True):
        for moment in ("exp_avg", "exp_avg_sq", "step"):
            first = going_on.optimizer.state[a][moment]
            assert torch.equal(first, resumed.optimizer.state[b][moment])


def test_checkpoint_comes_in_few_small_files(tmp_path: Path, pool: ScenePool) -> None:
    trainer = Trainer(options(tmp_path))
    trainer.step(pool, 0.0)
    trainer.save(pool, 1.0)
    trainer.save(pool, 2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    files = list((tmp_path / "checkpoint").iterdir())
    sizes = [path.stat().st_size for path in files]
    assert len(files) <= 6 and max(sizes) <= 15 << 20 and sum(sizes) <= 60 << 20


def test_incomplete_checkpoint_is_refused_by_the_tensor_that_is_missing(
    tmp_path: Path, pool: ScenePool
) -> None:
    settings = options(tmp_path)
    Trainer(settings).save(pool, 1.0)
    (settings.checkpoint / "state-0.safetensors").unlink()
    with pytest.raises(KeyError, match="is missing from the checkpoint"):
        Trainer(settings)


def test_exported_folder_keeps_the_limits_and_loads_as_float32(tmp_path: Path) -> None:
    source = shapes_model.build_model(1)
    assert sum(p.numel() for p in source.parameters()) <= shapes_model.MAX_PARAMETERS
    shapes_model.export_model(source.state_dict(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "categories.json",
    }
    assert (tmp_path / "model.safetensors").stat().st_size <= shapes_model.MAX_WEIGHT_BYTES
    loaded, processor = shapes_model.load_model(tmp_path)
    for name, value in source.state_dict().items():
        rounded = value.half().float() if value.is_floating_point() else value
        assert torch.equal(loaded.state_dict()[name], rounded), name
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert loaded.config.id2label[14] == "photograph"
    pixels = processor(images=[generate_scene(0).image], return_tensors="pt")["pixel_values"]
    assert pixels.shape == (1, 3, 256, 256)


def test_augmentation_moves_picture_and_map_alike() -> None:
    scenes = [generate_scene(seed, (SIDE, SIDE)) for seed in range(8)]
    maps = torch.stack([torch.from_numpy(scene.segment_map) for scene in scenes])
    images = (20 * maps)[:, None].expand(-1, 3, -1, -1).contiguous()
    moved, moved_maps = augment(images, maps, torch.Generator().manual_seed(4))
    assert not torch.equal(moved_maps, maps)
    for image, ids in zip(moved, moved_maps, strict=True):
        for segment in ids.unique():
            values = image[0][ids == segment]
            assert values.max() - values.min() < 1e-4


def test_workers_fill_the_ring_with_the_scenes_of_their_seeds() -> None:
    pool = ScenePool(2 * CHUNK, (SIDE, SIDE), first_seed=100)
    pool.fork(1)
    try:
        pool.attach(torch.device("cpu"))
        while pool.filled < 2 * CHUNK:
            pool.refresh(timeout_s=30.0)
        images, maps, labels = pool.batch(torch.tensor([0, 2 * CHUNK - 1]))
    finally:
        pool.close()
    for row, seed in enumerate((100, 100 + 2 * CHUNK - 1)):
        scene = generate_scene(seed, (SIDE, SIDE))
        assert np.array_equal(images[row].permute(1, 2, 0).numpy(), scene.image)
        assert np.array_equal(maps[row].numpy(), scene.segment_map)
        assert tuple(labels[row][labels[row] >= 0].tolist()) == scene.labels
    assert pool.next_seed >= 100 + 2 * CHUNK


def test_learning_rate_warms_up_and_ends_near_zero() -> None:
    assert learning_rate(0.0, 0, 1.0) < 0.01
    assert learning_rate(0.0, 10_000, 1.0) == pytest.approx(1.0)
    assert learning_rate(0.5, 10_000, 1.0) == pytest.approx(0.5, abs=0.01)
    assert learning_rate(1.0, 10_000, 1.0) == pytest.approx(0.005)
