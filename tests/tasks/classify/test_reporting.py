"""The report of a real model on real images, and the commands it shows."""

import shlex

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import vitrail as vt
from vitrail.data.dataset import ArraySplit, DataSet
from vitrail.report.frame import Frame, write_page
from vitrail.run.report import later_commands
from vitrail.tasks.classify.metrics import METRICS
from vitrail.tasks.classify.objective import Predictions
from vitrail.tasks.classify.options import Options
from vitrail.tasks.classify.report import attention_lines, commands, sections
from vitrail.tasks.classify.task import TASK
from vitrail.tasks.metric import describe_metrics
from vitrail.tasks.stages import Scored, Setup


def report(path, predictions, model, data, *, title):
    setup = Setup(options=Options(data="x"), data=data, extras=None, model=model)
    scored = Scored(evaluation=predictions, split="test", data=data, model=model)
    numbers = describe_metrics(METRICS, predictions.metrics) if len(predictions.truth) else {}
    frame = Frame(title=title, headline="test", certainty=TASK.summarize(setup, scored).certainty, numbers=numbers)
    write_page(path, frame, sections(scored, setup, ()))


def write(path, model, *, count=30, several=False):
    """A page about random images."""
    generator, classes = np.random.default_rng(0), model.num_classes
    labels = generator.random((count, classes)) < 0.4 if several else np.arange(count) % classes
    split = ArraySplit(generator.integers(0, 256, (count, *model.image_size, 3), dtype=np.uint8), labels)
    data = DataSet(
        name="noise", classes=tuple(f"class {k}" for k in range(classes)), splits={"test": split}, notes=("made up",)
    )
    predictions = Predictions(logits=generator.standard_normal((count, classes)).astype(np.float32), truth=labels)
    report(path, predictions, model, data, title="noise")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=4)


@pytest.mark.parametrize("several", [False, True])
def test_every_part_comes_from_the_model_and_the_data(tmp_path, small, several):
    text = write(tmp_path / "report.html", small, several=several)
    for words in (
        "95 % interval",
        "(method: occlusion)",
        'id="inside"',
        'id="positions"',
        'id="calibration"',
        "made up",
        'id="data"',
    ):
        assert words in text
    assert ("Mean average precision" in text) is several
    assert ('id="confusions"' in text) is not several


def test_an_interval_without_width_is_not_claimed(small):
    labels = np.arange(60) % 4
    split = ArraySplit(np.zeros((60, 16, 24, 3), np.uint8), labels)
    data = DataSet(name="even", classes=("a", "b", "c", "d"), splits={"test": split})
    setup = Setup(options=Options(data="x"), data=data, extras=None, model=small)
    for logits, words in (
        (np.eye(4, dtype=np.float32)[labels], "no interval by bootstrap: all 60 images came out alike"),
        (np.eye(4, dtype=np.float32)[labels * (np.arange(60) > 5)], "95 % interval "),
    ):
        found = Predictions(logits=logits, truth=labels)
        summary = TASK.summarize(setup, Scored(evaluation=found, split="test", data=data, model=small))
        assert summary.certainty.startswith(words)


def test_no_images_at_all(tmp_path, small):
    text = write(tmp_path / "report.html", small, count=0)
    assert "There were no images to score." in text
    assert "interval" not in text.split("</style>")[1]


@pytest.mark.slow
def test_a_report_on_digits_is_written_quickly_and_small(tmp_path, monkeypatch):
    model, data = vt.create_model("vit_nano_conv", image_size=(8, 8), in_channels=1), vt.open_data("digits")
    split = data["test"]
    logits = np.random.default_rng(0).standard_normal((len(split), 10)).astype(np.float32)
    predictions = Predictions(logits=logits, truth=split.labels)
    drawn, seen, savefig = [], [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda *words, **options: drawn.append(1) or savefig(*words, **options))
    model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    report(tmp_path / "report.html", predictions, model, data, title="digits")
    assert len(drawn) <= 8  # figures
    assert sum(seen) <= 3 * 64  # images that the model is asked about, of 360
    assert (tmp_path / "report.html").stat().st_size < 1_500_000


def test_paths_with_spaces_stay_one_word(tmp_path, small):
    run = tmp_path / "my run"
    shown = {**commands(shlex.quote(str(run)), small), **later_commands(run, task="classify")}
    for line in (line for what, line in shown.items() if "Python" not in what):
        assert any(str(tmp_path / "my run") in word for word in shlex.split(line))


def test_the_lines_of_python_run(tmp_path, small, monkeypatch, capsys):
    vt.save(small, tmp_path / "it's a run")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "IMAGE", format="PNG")
    monkeypatch.chdir(tmp_path)
    exec(attention_lines(str(tmp_path / "it's a run"), small), {})
    assert capsys.readouterr().out.startswith("torch.Size([1, ")
    soft = vt.create_model("resnet8_32", spatial_attention="soft", in_channels=1, image_size=8)
    vt.save(soft, tmp_path / "soft")
    exec(attention_lines(str(tmp_path / "soft"), soft), {})
    assert capsys.readouterr().out == "torch.Size([1, 2, 4, 4])\n"


def test_a_model_without_attention_has_no_lines_for_it(tmp_path):
    plain = vt.create_model("resnet8_32", in_channels=1, image_size=8)
    assert not any("attention" in what for what in commands(str(tmp_path), plain))
