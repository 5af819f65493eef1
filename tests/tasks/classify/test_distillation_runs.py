"""`vitrail train --teacher RUN`: who may teach, what is reported of it, and exact resumption beside a convolutional teacher."""

import json
import shutil

import numpy as np
import pytest
import yaml
from stopping import stop_after

import vitrail as vt
from vitrail.learn.training.interruption import Interrupted
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.run.train import train

STUDENT = {"model": "deit_nano_distilled_patch4_32", "batch": 32, "epochs": 2, "quiet": True}
MAE = MAEConfig(
    backbone={"width": 8, "depth": 1, "heads": 2, "patch": 4, "image_size": [8, 8]},
    decoder_width=8,
    decoder_depth=1,
    decoder_heads=2,
)
pytestmark = pytest.mark.usefixtures("quick_report")


@pytest.fixture(scope="module")
def teacher(arrays, tmp_path_factory):
    """A convolutional net of color images of another size, trained for a second."""
    folder = tmp_path_factory.mktemp("teacher") / "conv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
        run = train(data=arrays, model="resnet8_32", image_size=10, in_channels=3, epochs=6, batch=16, out=folder, quiet=True)
    assert run.metrics["accuracy"] > 0.5
    return folder


@pytest.fixture(scope="module")
def student(arrays, teacher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("student") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
        train(data=arrays, teacher=teacher, out=folder, **STUDENT)
    return folder


def weights_of(folder):
    return (folder / "last" / "model.safetensors").read_bytes()


def test_what_is_kept_and_reported(student, teacher):
    kept = yaml.safe_load((student / "config.yaml").read_text())
    assert (kept["teacher"], kept["distill"], kept["distill_share"]) == (str(teacher), "hard", 0.5)
    metrics = json.loads((student / "metrics.json").read_text())
    own = json.loads((teacher / "metrics.json").read_text())
    assert metrics["teacher_accuracy"] == own["accuracy"]
    assert {"class_head_accuracy", "distilled_head_accuracy", "teacher_agreement"} <= metrics.keys()
    card = (student / "best" / "README.md").read_text()
    assert "- Teacher: resnet of conv, " in card
    assert str(teacher.parent) not in card
    assert not any("teacher" in name for name in vt.load(student).state_dict())
    assert "val_distilled_head_accuracy" in (student / "results.csv").read_text()


def test_resumed_bit_for_bit(arrays, teacher, student, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stop_after(monkeypatch, 4)  # in the middle of the second epoch
    with pytest.raises(Interrupted):
        train(data=arrays, teacher=teacher, out=folder, **STUDENT)
    monkeypatch.undo()
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
    train(data=arrays, out=folder, resume=True, quiet=True)
    assert weights_of(folder) == weights_of(student)


def test_a_teacher_that_is_gone_is_reported_in_a_line(arrays, teacher, tmp_path, command):
    copied = tmp_path / "teacher"
    shutil.copytree(teacher, copied)
    words = ("--data", arrays, "--model", "vit_nano_patch4_32", "--epochs", "1", "--out", tmp_path / "run")
    assert command("train", *words, "--teacher", copied).code == 0
    (tmp_path / "run" / "metrics.json").unlink()  # not finished, then
    shutil.rmtree(copied)
    code, _, err = command("train", "--out", tmp_path / "run", "--resume", "--data", arrays)
    assert code == 2
    assert "the teacher of this run is gone" in err
    assert str(copied) in err


def test_a_teacher_may_count_the_classes_in_another_order(arrays, student, teacher, tmp_path):
    """The same teacher with its classes permuted, weights and names alike, teaches the same."""
    model, order = vt.load(teacher), [2, 0, 1]
    model.head.output.weight.data = model.head.output.weight.data[order]
    model.head.output.bias.data = model.head.output.bias.data[order]
    model.labels = tuple(model.labels[number] for number in order)
    vt.save(model, tmp_path / "permuted")
    train(data=arrays, teacher=tmp_path / "permuted", out=tmp_path / "run", **STUDENT)
    assert weights_of(tmp_path / "run") == weights_of(student)


def test_without_a_share_it_is_training_without_a_teacher(arrays, teacher, tmp_path):
    plain = STUDENT | {"model": "vit_nano_patch4_32", "epochs": 1}
    train(data=arrays, out=tmp_path / "one", **plain)
    train(data=arrays, out=tmp_path / "two", teacher=teacher, distill="soft", distill_share=0.0, **plain)
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "two")


def test_parts_of_a_batch_and_mixed_images(arrays, teacher, tmp_path):
    mixed = STUDENT | {
        "epochs": 1,
        "mixup": 0.5,
        "cutmix": 1.0,
        "accumulate": 2,
        "sam": 0.05,
        "progressive": 0.5,
        "distill": "soft",
    }
    run = train(data=arrays, teacher=teacher, out=tmp_path / "run", **mixed)
    kept = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (kept["distill_share"], kept["distill_temperature"]) == (0.1, 3.0)


@pytest.mark.parametrize(
    "words, expected",
    [
        (("--teacher", "{gone}"), "no such teacher"),
        (("--teacher", ""), "--teacher is empty"),
        (("--distill", "soft"), "give --teacher too"),
        (("--distill-share", "0.3"), "give --teacher too"),
        (("--teacher", "{teacher}", "--distill-share", "1.5"), "at most 1, got 1.5"),
        (("--teacher", "{teacher}", "--distill", "soft", "--distill-temperature", "0"), "above 0"),
        (("--teacher", "{teacher}", "--distill-temperature", "2"), "hard predictions have none"),
        (("--teacher", "{teacher}", "--distill-share", "0"), "would learn nothing"),
        (("--teacher", "{others}"), "does not know the class"),
        (("--teacher", "{nameless}"), "no names"),
        (("--teacher", "{features}"), "names classes"),
        (("--teacher", "{pretrained}"), "names classes"),
        (("--freeze", "encoder"), "give --weights too"),
    ],
)
def test_refusals_are_one_line(words, expected, arrays, teacher, tmp_path, command):
    paths = {"gone": tmp_path / "gone", "teacher": teacher}
    for name, labels in (("others", ("x", "y", "z")), ("nameless", None), ("features", None)):
        model = vt.load(teacher)
        if name == "features":
            model.reset_classifier(0)
        model.labels = labels
        paths[name] = vt.save(model, tmp_path / name)
    paths["pretrained"] = vt.save(build_mae(MAE), tmp_path / "pretrained")
    words = [word.format(**paths) for word in words]
    code, _, err = command("train", "--data", arrays, "--model", STUDENT["model"], "--out", tmp_path / "run", *words)
    assert code == 2
    assert expected in err
    assert len(err.strip().splitlines()) == 1


def test_several_labels_per_image_have_no_teacher(teacher, arrays):
    from vitrail.data.opening import open_data
    from vitrail.errors import VitrailError
    from vitrail.tasks.classify.distillation import find_teacher
    from vitrail.tasks.classify.options import Options

    data = open_data(str(arrays), seed=0)
    assert find_teacher(Options(data=str(arrays), teacher=str(teacher)), data).columns == (0, 1, 2)
    model = vt.load(teacher)
    assert np.isfinite(model.preprocessing.mean).all()
    object.__setattr__(data["train"], "labels", np.ones((96, 3), dtype=bool))
    with pytest.raises(VitrailError, match="one label per image"):
        find_teacher(Options(data=str(arrays), teacher=str(teacher)), data)
