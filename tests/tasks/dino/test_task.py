"""`vitrail pretrain --method dino|moco` as a job: from data to report, again bit for bit, onwards with labels; what is refused."""

import csv
import json
import re

import pytest
import yaml

from vitrail.models.catalogue import create_model
from vitrail.run.train import train
from vitrail.tasks.dino.task import with_class_token

HOW = {"model": "vit_nano_patch4_32", "batch_size": 24, "device": "cpu", "workers": 0, "quiet": True}


@pytest.mark.parametrize("method", ["dino", "moco"])
def test_a_run_from_data_to_report_and_onwards_with_labels(method, arrays, tmp_path):
    run = train(data=arrays, task=method, epochs=1, out=tmp_path / "run", **HOW)
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert options["momentum"] == (0.95 if method == "dino" else 0.99)
    assert options["flip"] is False
    assert ("views" in options) is (method == "dino")
    [row] = csv.DictReader((run.path / "results.csv").read_text().splitlines())
    watched = {"val_loss", "val_spread", "val_knn"}
    watched |= {"val_entropy", "val_single_entropy", "val_information"} if method == "dino" else set()
    assert watched <= row.keys()
    assert json.loads((run.path / "metrics.json").read_text())["knn"] == run.metrics["knn"] > 0.2
    page = (run.path / "report.html").read_text()
    for words in ("Does it tell images apart?", "Nearest neighbors", "Spread of features"):
        assert words in page
    assert ("Where it looks" in page) is (method == "dino")
    assert "Not shown" not in page
    config = run.model.backbone.config
    assert (config.prefix, config.pool) == ((1, "class") if method == "dino" else (0, "mean"))
    later = train(data=arrays, weights=run.path, epochs=1, batch_size=24, device="cpu", out=tmp_path / "labels", quiet=True)
    assert later.model.config.pool == config.pool
    assert all(p.requires_grad for p in later.model.parameters())


def test_a_class_token_is_added_to_what_has_none():
    plain = create_model("vit_nano_patch4_32", num_classes=0)
    again = with_class_token(plain)
    assert (again.config.prefix, again.config.pool) == (1, "class")
    assert with_class_token(again) is again
    assert with_class_token(hybrid := create_model("vit_nano_hybrid", num_classes=0)) is hybrid  # its head looks at all cells
    assert with_class_token(resnet := create_model("resnet8_32", num_classes=0)) is resnet


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--views", -1), "--views must be at least 0, got -1"),
        (("--momentum", 1.5), "--momentum must be at most 1, got 1.5"),
        (("--temperature", 0), "--temperature must be above 0, got 0.0"),
        (("--teacher-temperature", 0), "--teacher-temperature must be above 0, got 0.0"),
        (("--prototypes", 1), "--prototypes must be at least 2, got 1"),
        (("--cutout", 0.5), "--cutout is an option of --task .*mae.* only"),
        (("--hide", 0.5), "--hide is an option of --task .*mae.* only"),
    ],
)
def test_wrong_values_are_reported_in_a_line(words, message, command, arrays, tmp_path):
    answer = command("pretrain", "--method", "dino", "--data", arrays, "--out", tmp_path / "run", *words)
    assert answer.code != 0
    assert re.fullmatch(f"vitrail: {message}\n", answer.err)


def test_contrast_cannot_come_in_parts(command, arrays, tmp_path):
    answer = command("pretrain", "--method", "moco", "--data", arrays, "--out", tmp_path / "run", "--accumulate", 2)
    assert "--accumulate 2: --method moco tells the images of a batch apart" in answer.err
