"""`vt.cascade`: easy images leave early, answers keep their order, and a folder brings the same cascade back."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.dataset import ArraySplit, DataSet
from vitrail.tasks.classify.cascade_calibration import NEVER
from vitrail.tasks.classify.cascade_folder import load_cascade
from vitrail.tasks.classify.cascade_making import count_multiply_adds, make_stages
from vitrail.tasks.classify.cascade_pipeline import Cascade, at_size

LABELS = ("a", "b", "c")


def make_model(seed: int, *, image_size: int = 8, labels: tuple[str, ...] = LABELS, sharp: float = 20.0):
    """Untrained, but sure of itself: its logits are far apart."""
    torch.manual_seed(seed)
    model = vt.create_model(
        "vit_nano_conv", width=12, depth=1, heads=2, image_size=image_size, in_channels=1, num_classes=len(labels)
    )
    with torch.no_grad():
        model.head.output.weight.mul_(sharp / 0.02).clamp_(-3 * sharp, 3 * sharp)
    model.labels = labels
    return model.eval()


@pytest.fixture(scope="module")
def models():
    return make_model(1), make_model(2, image_size=16)


@pytest.fixture(scope="module")
def data() -> DataSet:
    generator = np.random.default_rng(0)
    splits = {
        split: ArraySplit(generator.integers(0, 256, (count, 16, 16), dtype=np.uint8), np.arange(count) % 3)
        for split, count in {"train": 3, "val": 90, "test": 40}.items()
    }
    return DataSet(name="noise", classes=LABELS, splits=splits)


@pytest.fixture(scope="module")
def images(data) -> list[Image.Image]:
    return [data["test"].read(index) for index in range(37)]


def fixed(models, thresholds, measure="margin") -> Cascade:
    return Cascade(make_stages(list(models)), thresholds=thresholds, measure=measure)


def alone(model, images):
    return vt.pipeline("image-classification", model)(images)


def same(one, other) -> bool:
    """The same labels, and scores but for what another batch changes in the last digit."""
    return all(
        [row["label"] for row in a] == [row["label"] for row in b]
        and [row["score"] for row in a] == pytest.approx([row["score"] for row in b], abs=1e-5)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("stated", [0.5, 0.8, 0.95, 1.0])
def test_agreement_on_validation_is_at_least_what_was_stated(stated, models, data):
    made = vt.cascade(list(models), agreement=stated, data=data, cost="multiply_adds")
    assert made.report.agreement >= stated
    assert (made.report.split, made.report.pictures, made.report.data) == ("val", 90, "noise")
    images = [data["val"].read(index) for index in range(90)]
    rows, stages = made.scores(images)
    last = made.stages[-1].classify.probabilities(images)
    assert float((rows.argmax(1) == last.argmax(1)).float().mean()) >= stated - 1e-9
    assert torch.bincount(stages, minlength=2).div(90).tolist() == pytest.approx(made.report.shares)
    assert made.report.mean_cost <= made.report.costs[-1]
    assert "agreement" in str(made.report)


def test_a_model_with_itself_agrees_at_any_threshold(models, images):
    model = models[0]
    for threshold in (0.0, 0.3, 0.9, NEVER):
        assert same(fixed((model, model), (threshold,))(images), alone(model, images))


def test_threshold_zero_is_the_small_one_alone_and_above_one_the_large(models, images):
    small, large = models
    assert same(fixed(models, (0.0,))(images), alone(small, images))
    assert same(fixed(models, (NEVER,))(images), alone(large, images))
    assert not same(alone(small, images), alone(large, images))


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_answers_keep_the_order_of_the_images(batch, models, images):
    small, large = (alone(model, images) for model in models)
    made = fixed(models, (0.6,))
    _, stages = made.scores(images, batch=batch)
    assert 0 < int(stages.sum()) < len(images)  # both stages answer some
    expected = [(small, large)[stage][number] for number, stage in enumerate(stages.tolist())]
    assert same(made(images, batch=batch), expected)
    assert same(list(made.stream(iter(images), batch=batch)), expected)


def test_it_is_called_as_the_pipeline_of_one_model_is(models, images, tmp_path):
    made = vt.pipeline("image-classification", fixed(models, (0.6,)))
    one = made(images[0], top_k=2)
    assert [sorted(row) for row in one] == [["label", "score"]] * 2
    images[0].save(tmp_path / "a.png")
    assert same([made(tmp_path / "a.png", top_k=2), made(np.asarray(images[0]), top_k=2)], [one, one])
    assert made([]) == []
    with pytest.raises(vt.VitrailError, match="top_k must be at least 1, got 0"):
        made(images, top_k=0)


def test_a_stream_does_not_wait_for_its_end(models, images):
    taken = []

    def endless():
        for image in images * 3:
            taken.append(image)
            yield image

    next(fixed(models, (0.0,)).stream(endless(), batch=4))
    assert len(taken) == 4


def test_three_stages(models, images, data):
    made = vt.cascade([make_model(5), *models], agreement=0.9, data=data, cost="multiply_adds")
    assert len(made.thresholds) == 2
    assert made.report.agreement >= 0.9
    assert len(made(images)) == len(images)


def test_one_model_at_two_sizes(data, images, tmp_path):
    model = make_model(3, image_size=16)
    made = vt.cascade(model, sizes=[8, (16, 16)], agreement=0.8, data=data["val"], cost="multiply_adds")
    assert [stage.size for stage in made.stages] == [(8, 8), (16, 16)]
    assert count_multiply_adds(made.stages[0]) < count_multiply_adds(made.stages[1])
    assert made.report.agreement >= 0.8
    assert model.preprocessing.size == (16, 16)  # the user's model is not changed
    small = at_size(model, (8, 8))
    assert small.head.output.weight is model.head.output.weight
    always = Cascade(made.stages, thresholds=(0.0,), measure=made.measure)
    assert same(always(images), alone(small, images))
    made.save(tmp_path / "both")
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["cascade.json", "stage1"]
    assert vt.load(tmp_path / "both" / "stage1").preprocessing.size == (16, 16)
    assert same(vt.cascade(tmp_path / "both")(images), made(images))


def test_what_cannot_be_a_cascade(models, data):
    small, large = models
    patches = vt.create_model("vit_nano_patch4_32", width=8, depth=1, image_size=8, in_channels=1, num_classes=3)
    refused = {
        "at least two models, from cheap to dear, or one with sizes": {"models": small, "data": data},
        "or one with sizes; got one without": {"models": [small], "data": data},
        "calibrated on validation images: give data": {"models": [small, large]},
        'model 1: label 1 is "c", in model 2 it is "b"': {
            "models": [make_model(4, labels=("a", "c", "b")), large],
            "data": data,
        },
        "model 1: has 2 labels, model 2 has 3": {"models": [make_model(4, labels=("a", "b")), large], "data": data},
        "sizes must grow, got 16x16, 8x8": {"models": large, "sizes": [16, 8], "data": data},
        "got 2 models": {"models": [small, large], "sizes": [8, 16], "data": data},
        "6x6: the model cannot read images of 6x6": {"models": patches, "sizes": [6, 8], "data": data},
        "agreement must be a share above 0 and at most 1, got 99": {"models": [small, large], "data": data, "agreement": 99.0},
        'has no split "val"': {
            "models": [small, large],
            "data": DataSet(name="x", classes=LABELS, splits={"test": data["test"]}),
        },
    }
    for message, words in refused.items():
        with pytest.raises(vt.VitrailError, match=re.escape(message)):
            vt.cascade(words.pop("models"), **words)
    several = make_model(6)
    several.multi_label = True
    with pytest.raises(vt.VitrailError, match="one label per image"):
        vt.cascade([several, large], data=data)
    with pytest.raises(vt.VitrailError, match="at least two stages, from cheap to dear, got 1"):
        Cascade(make_stages([small, large])[:1], thresholds=())
    with pytest.raises(vt.VitrailError, match="2 stages need 1 thresholds, got 2"):
        fixed(models, (0.5, 0.5))
    with pytest.raises(vt.VitrailError, match="thresholds are from 0"):
        fixed(models, (float("nan"),))


def test_runs_that_were_divided_differently_are_refused(models, arrays, tmp_path):
    source = tmp_path / "train_only.npz"
    with np.load(arrays) as file:
        np.savez(source, x_train=file["x_train"], y_train=file["y_train"])
    for seed, model in enumerate(models):
        vt.save(model, tmp_path / f"run{seed}" / "best")
        (tmp_path / f"run{seed}" / "config.yaml").write_text(f"data: {source}\nseed: {seed}\n")
    runs = [tmp_path / "run0", tmp_path / "run1"]
    with pytest.raises(vt.VitrailError, match="divided their data differently"):
        vt.cascade(runs)
    assert vt.cascade(runs, data=arrays, agreement=0.5).report.pictures == 15  # which has a val split of its own
    (tmp_path / "run0" / "config.yaml").write_text(f"data: {source}\nseed: 1\n")
    made = vt.cascade(runs, agreement=0.5).report
    assert made.data == "train_only"
    for key in ("val_split", "val_share"):  # the latter in older runs
        for number, share in enumerate((0.3, 0.4)):
            (tmp_path / f"run{number}" / "config.yaml").write_text(f"data: {source}\nseed: 1\n{key}: {share}\n")
        with pytest.raises(vt.VitrailError, match=r"divided their data differently \(--val-split: 0.3 and 0.4\)"):
            vt.cascade(runs)
        (tmp_path / "run1" / "config.yaml").write_text(f"data: {source}\nseed: 1\n{key}: 0.3\n")
        assert vt.cascade(runs, agreement=0.5).report.pictures > 2 * made.pictures


@pytest.fixture(scope="module")
def saved(models, data, tmp_path_factory):
    made = vt.cascade(list(models), agreement=0.8, data=data, cost="multiply_adds")
    return made, made.save(tmp_path_factory.mktemp("cascade") / "saved")


def test_a_folder_brings_the_same_cascade_back(saved, images):
    made, folder = saved
    again = vt.cascade(folder)
    assert (again.thresholds, again.measure, again.report) == (made.thresholds, made.measure, made.report)
    assert [stage.name for stage in again.stages] == ["model 1", "model 2"]
    assert again(images) == made(images)
    assert vt.pipeline("image-classification", str(folder))(images) == made(images)


def test_a_broken_or_hostile_folder_gives_one_line(saved, tmp_path):
    _, folder = saved
    good = json.loads((folder / "cascade.json").read_text())
    for name in ("stage1", "stage2"):
        (tmp_path / name).symlink_to(folder / name)  # links that lead out of the folder
    (tmp_path / "deep").mkdir()
    stage = good["stages"][0]

    def with_stage(**changes):
        return good | {"stages": [stage | changes, good["stages"][1]]}

    cases = {
        "not readable as JSON": "{",
        "not a cascade of this library": [],
        'key "measure" is missing': {key: value for key, value in good.items() if key != "measure"},
        "format 2 is newer": good | {"format": 2},
        "unknown measure 'eval'": good | {"measure": "eval"},
        'key "stages" must be list': good | {"stages": {}},
        "expected a table of options": good | {"stages": ["stage1", "stage2"]},
        "from 2 to 16 stages, got 1": good | {"stages": good["stages"][1:]},
        "from 2 to 16 stages, got 1000": good | {"stages": [stage] * 1000},
        'unknown key "code"': with_stage(code="import os"),
        "named by letters and digits, got '../stage1'": with_stage(model="../stage1"),
        "named by letters and digits, got '/etc'": with_stage(model="/etc"),
        "named by letters and digits, got '..'": with_stage(model=".."),
        "named by letters and digits, got 'stage1'": with_stage(),  # here a link
        "folder 'deep' of a stage is missing, or has no config.json": with_stage(model="deep"),
        "stage 1 breaks that rule": with_stage(threshold=None),
        "expected float | null, got 'high'": with_stage(threshold="high"),
        'report: unknown key "x"': good | {"report": {"x": 1}},
    }
    for message, content in cases.items():
        (tmp_path / "cascade.json").write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(vt.VitrailError, match=re.escape(message)) as caught:
            load_cascade(tmp_path)
        assert "\n" not in str(caught.value)


def test_numbers_out_of_range_are_refused_too(saved, tmp_path):
    made, _ = saved
    folder = made.save(tmp_path / "copy")
    good = (folder / "cascade.json").read_text()
    stage = json.loads(good)["stages"][0]
    for key, value, message in [
        ("threshold", float("nan"), "thresholds are from 0"),
        ("threshold", -1.0, "thresholds are from 0"),
        ("size", [10**9, 10**9], "sides of images are from 1 to 4096"),
    ]:
        record = json.loads(good)
        record["stages"][0] = stage | {key: value}
        (folder / "cascade.json").write_text(json.dumps(record))
        with pytest.raises(vt.VitrailError, match=message):
            vt.cascade(folder)
