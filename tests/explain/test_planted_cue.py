"""A cue that we planted is found by the default map, and only in the model that learned to go by it."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import vitrail as vt
from vitrail.explain import explain_map, share_inside

SIZE, SIDE = 32, 8  # pixels; a corner is one of 16 cells


@pytest.fixture(scope="module")
def planted_cue():
    """The benchmark's own functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield importlib.import_module("planted_cue")


def test_what_was_interrupted_is_measured_again_and_kept_once(planted_cue, tmp_path, monkeypatch):
    torch.manual_seed(0)
    vt.save(vt.create_model("vit_nano_patch8_32", num_classes=10, depth=1), tmp_path / "run")
    monkeypatch.setattr(planted_cue, "COUNTS", {"test": 6})
    monkeypatch.setattr(planted_cue, "EXPLAINED", 4)
    options, folder = SimpleNamespace(out=tmp_path), tmp_path / "planted_cue"
    folder.mkdir()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(planted_cue, "write_rows", stop)
        with pytest.raises(KeyboardInterrupt):
            planted_cue.ask("cue", 0, tmp_path / "run", options)
    planted_cue.ask("cue", 0, tmp_path / "run", options)
    assert len(planted_cue.read_rows(folder / "pictures-cue-seed0.csv")) == 4
    assert [row["model"] for row in planted_cue.read_rows(folder / "results.csv")] == ["cue right", "cue bare", "cue other"]


def to_images(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def learn(plant, images, labels, *, cue):
    """A small model of images whose corner tells the class, or has another color in every epoch."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    model = vt.create_model("vit_nano_patch8_32", num_classes=10, depth=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    target = torch.from_numpy(labels)
    for _ in range(24):
        colors = labels if cue else generator.integers(10, size=len(labels))
        inputs = to_images(plant(images, colors, side=SIDE))
        for some in torch.randperm(len(inputs)).split(50):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[some]), target[some]).backward()
            optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def models(planted_cue):
    images, labels = planted_cue.draw_images("train", 500, size=SIZE)
    return {name: learn(planted_cue.plant, images, labels, cue=name == "cue") for name in ("cue", "control")}


@pytest.fixture(scope="module")
def shown(planted_cue):
    images, labels = planted_cue.draw_images("test", 100, size=SIZE)
    return {way: to_images(found) for way, found in planted_cue.corners(images, labels, side=SIDE).items()}, torch.from_numpy(
        labels
    )


def inside(model, images, planted_cue):
    masks = torch.from_numpy(planted_cue.corner_mask(len(images), size=SIZE, side=SIDE))
    found = share_inside(explain_map(model, images), masks)
    return float(found.share.mean()), float(found.chance.mean())


@pytest.mark.slow
def test_the_cue_is_what_the_model_goes_by(models, shown):
    images, labels = shown
    with torch.no_grad():
        right = {way: float((models["cue"](some).argmax(1) == labels).float().mean()) for way, some in images.items()}
    assert right["right"] > 0.95
    assert right["other"] < 0.05, "it says what the corner says"
    assert right["bare"] < 0.4, "and without it knows little"


@pytest.mark.slow
def test_the_map_finds_the_cue(models, shown, planted_cue):
    share, chance = inside(models["cue"], shown[0]["right"], planted_cue)
    assert chance == pytest.approx(1 / 16)
    assert share > 4 * chance


@pytest.mark.slow
def test_a_model_that_learned_without_the_cue_is_not_accused(models, shown, planted_cue):
    share, _ = inside(models["control"], shown[0]["right"], planted_cue)
    by_cue, _ = inside(models["cue"], shown[0]["right"], planted_cue)
    assert share < by_cue / 3  # a corner of an image is never quite without interest
    with torch.no_grad():
        answers = {way: models["control"](some).argmax(1) for way, some in shown[0].items()}
        answers_by_cue = {way: models["cue"](some).argmax(1) for way, some in shown[0].items()}
    changed = float((answers["right"] != answers["bare"]).float().mean())
    assert changed < float((answers_by_cue["right"] != answers_by_cue["bare"]).float().mean()) / 2
