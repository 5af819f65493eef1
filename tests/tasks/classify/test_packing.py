"""`vitrail train --pack`: images of different sizes, from files to a stored model, and on after a stop."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from stopping import stop_at

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.interruption import Interrupted

pytestmark = pytest.mark.usefixtures("quick_report")
SAME = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "predictions.csv", "metrics.json")
OPTIONS = {
    "model": "vit_nano_patch4_32", "image_size": 16, "pack": True, "batch": 4, "epochs": 2, "recipe": "tiny", "drop_path": 0.3,
    "token_keep": 0.7, "workers": 0, "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tall images and wide ones, dark and bright: 60 files of many sizes."""
    folder, generator = tmp_path_factory.mktemp("data") / "set", np.random.default_rng(3)
    for number in range(60):
        kind = number % 2
        height, width = generator.integers(8, 30, 2)
        pixels = generator.integers(0, 128, (height, width, 3)) + 127 * kind
        (folder / f"class{kind}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"class{kind}" / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def run(folder, quick_report, tmp_path_factory):
    return vt.train(data=folder, out=tmp_path_factory.mktemp("runs") / "whole", quiet=True, **OPTIONS)


def test_it_learns_and_is_scored_packed(run, folder, command):
    model = vt.load(run.path)
    assert model.preprocessing.fit == "aspect"
    assert run.metrics["accuracy"] > 0.8
    answer = command("eval", run.path, "--json", "--batch-size", "7", "--workers", "0")  # of other batches, the same scores
    again = json.loads(answer.out)
    assert again["accuracy"] == run.metrics["accuracy"]
    assert again["loss"] == pytest.approx(run.metrics["loss"], abs=1e-5)
    assert "aspect kept" in (run.path / "best" / "README.md").read_text()


def test_predictions_of_files_are_those_of_the_evaluation(run, folder):
    rows = [line.split(",") for line in (run.path / "predictions.csv").read_text().splitlines()[1:]]
    classify = vt.pipeline("image-classification", run.path)
    answers = classify([path for path, *_ in rows])
    for (_, _, said, sure), answer in zip(rows, answers, strict=True):
        assert answer[0]["label"] == said
        assert answer[0]["score"] == pytest.approx(float(sure), abs=1e-5)


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_a_stopped_run_goes_on_bit_for_bit(step, run, folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, step, where="vitrail.tasks.classify.data")
        with pytest.raises(Interrupted, match="SIGINT"):
            vt.train(data=folder, out=tmp_path / "run", quiet=True, **OPTIONS)
    vt.train(data=folder, out=tmp_path / "run", resume=True, quiet=True)
    for file in SAME:
        assert (run.path / file).read_bytes() == (tmp_path / "run" / file).read_bytes(), file


@pytest.mark.slow
def test_parts_of_a_batch_give_the_step_of_the_whole(folder, tmp_path):
    """And workers, and no cache: the weights are the same to rounding."""
    plain = {**OPTIONS, "token_keep": 1.0, "drop_path": 0.0, "epochs": 1, "optimizer": "sgd"}
    found = []
    for name, options in {"one": {}, "parts": {"accumulate": 3, "workers": 1, "cache": "off"}}.items():
        found.append(vt.load(vt.train(data=folder, out=tmp_path / name, quiet=True, **{**plain, **options}).path / "last"))
    for one, other in zip(found[0].parameters(), found[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_weights_of_a_packed_run_and_back(run, folder, tmp_path):
    options = {"data": folder, "weights": str(run.path), "epochs": 1, "batch": 16, "workers": 0, "quiet": True}
    square = vt.train(out=tmp_path / "square", **options)
    assert vt.load(square.path).preprocessing.fit == "squash"
    packed = vt.train(out=tmp_path / "packed", **{**options, "weights": str(square.path)}, pack=True)
    assert vt.load(packed.path).preprocessing.fit == "aspect"


def test_a_size_is_chosen_by_area():
    from vitrail.tasks.image_task import choose_size

    for sizes, side in {((10, 20), (20, 10)): 16, ((28, 28),): 32, ((60, 100),): 80, ((900, 700),): 224}.items():
        assert choose_size(None, [Image.new("L", size) for size in sizes], pack=True) == (side, side)


@pytest.mark.parametrize("size, model", [(16, "vit_nano_patch2_32"), (32, "vit_nano_patch4_32"), (64, "vit_nano_patch8_32")])
def test_a_model_is_chosen_that_can_be_packed(size, model):
    from vitrail.tasks.classify.task import choose_model

    assert choose_model((size, size), 100, pack=True) == model
    assert vt.create_model(model).config.tokenizer == "patch"


@pytest.mark.parametrize(
    "words, line",
    [  # each of them is the user's mistake: code 2
        (["--compile"], "--pack and --compile do not go together: images of a step are of different sizes"),
        (["--shard"], "--pack and --shard do not go together: images of a step are of different sizes"),
        (["--mixup", "0.2"], "--pack and --mixup 0.2 do not go together: images of a step are of different sizes"),
        (
            ["--progressive", "0.5"],
            "--pack and --progressive 0.5 do not go together: images of a step are of different sizes",
        ),
        (["--model", "resnet8_32"], "--pack: a model of the kind resnet cannot pack images of different sizes; a vit can"),
        (["--model", "vit_nano_conv"], "images of different sizes cannot be learned from by a model with batch norm"),
        (["--task", "caption"], "--pack is an option of --task classify only"),
    ],
)
def test_what_does_not_go_with_it_is_one_line(words, line, folder, command, tmp_path):
    answer = command("train", "--data", folder, "--pack", "--out", tmp_path / "run", *words)
    assert answer.code == 2
    assert not (tmp_path / "run").exists()
    assert line in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_mixing_of_a_recipe_gives_way(folder):
    from vitrail.data.opening import open_data
    from vitrail.tasks.classify.options import Options
    from vitrail.tasks.classify.task import TASK
    from vitrail.tasks.stages import Opened

    asked = Options(data=str(folder), recipe="medium", pack=True, device="cpu")
    options = TASK.resolve(asked, Opened(data=open_data(str(folder), seed=0)), None, None).options
    assert (options.mixup, options.cutmix, options.progressive) == (0.0, 0.0, 1.0)


def test_a_packed_batch_cannot_be_asked_of_a_plain_run(run, folder):
    with pytest.raises(VitrailError, match="differs from the run's own"):
        vt.train(data=folder, out=run.path, resume=True, pack=False, quiet=True)
