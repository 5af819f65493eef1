"""A visual vocabulary and BEiT as jobs: from images to codes, to a model that names hidden ones, to labels."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

import vitrail as vt
from vitrail.data.image_source import Batch
from vitrail.errors import VitrailError
from vitrail.learn.training.loop import describe_scores
from vitrail.learn.training.objective import Evaluation, Following, Objective
from vitrail.models.beit import BEiTConfig, assemble_beit
from vitrail.models.dvae import DVAEConfig, build_dvae
from vitrail.preprocessing import Preprocessing
from vitrail.records import to_record
from vitrail.run.evaluate import evaluate
from vitrail.run.train import train
from vitrail.tasks import registry
from vitrail.tasks.beit.objective import NamedPatches, NamingHidden, as_read_by, count_hidden
from vitrail.tasks.dvae.metrics import METRICS
from vitrail.tasks.dvae.objective import CodedImages, Coding
from vitrail.tasks.pretraining import PretrainingTask


@pytest.fixture(scope="module")
def stripes(tmp_path_factory):
    """8x8 gray images of two classes: rows that are alike, or columns."""
    generator, path, parts = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "stripes.npz", {}
    for split, count in (("train", 48), ("val", 12), ("test", 11)):
        lines = generator.integers(0, 2, (count, 8), dtype=np.uint8) * 255
        labels, rows = np.arange(count) % 2, np.repeat(lines[:, :, None], 8, axis=2)
        parts[f"x_{split}"] = np.where(labels[:, None, None] == 1, rows, rows.transpose(0, 2, 1))
        parts[f"y_{split}"] = labels
    np.savez(path, **parts)
    return path


QUICK = {"epochs": 2, "batch_size": 16, "device": "cpu", "quiet": True}


@pytest.fixture(scope="module")
def vocabulary(stripes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "dvae"
    return train(data=stripes, task="dvae", codes=8, out=folder, **QUICK)


@pytest.fixture(scope="module")
def beit(stripes, vocabulary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "beit"
    return train(data=stripes, task="beit", tokenizer=vocabulary.path, out=folder, **QUICK)


def test_protocols():
    dvae, beit = registry.find("dvae"), registry.find("beit")
    for method in (dvae, beit):
        assert isinstance(method, PretrainingTask)
    assert (dvae.networks, dvae.choose_model((8, 8), 100)) == (("dvae",), "dvae_small")
    assert ("vit" in beit.networks, beit.choose_model((8, 8), 100)) == (True, "beit_nano_patch2_32")


def test_a_vocabulary_from_data_to_report(vocabulary):
    options = yaml.safe_load((vocabulary.path / "config.yaml").read_text())
    assert (options["model"], options["codes"]) == ("dvae_small", 8)
    assert not {"hide", "mask_ratio"} & options.keys()
    rows = (vocabulary.path / "results.csv").read_text().splitlines()
    assert {"val_psnr", "val_codes_used", "val_code_perplexity"} <= set(rows[0].split(","))
    assert set(vocabulary.metrics) == {"loss", "psnr", "codes_used", "code_perplexity"}
    page = (vocabulary.path / "report.html").read_text()
    for words in ("Its vocabulary", "Images from their codes", "--method beit --data DIR --tokenizer"):
        assert words in page
    assert vt.load(vocabulary.path).config.stride == 2


def test_beit_from_data_to_report(beit, vocabulary):
    options = yaml.safe_load((beit.path / "config.yaml").read_text())
    assert (options["model"], options["mask_ratio"], options["tokenizer"]) == ("beit_nano_patch2_32", 0.4, str(vocabulary.path))
    assert set(beit.metrics) == {"loss", "accuracy", "most_frequent"}
    assert 0 < beit.metrics["most_frequent"] <= 1
    page = (beit.path / "report.html").read_text()
    for words in ("Masked patches", "predicted codes", "What patches read", "vitrail train --data DIR --weights"):
        assert words in page
    assert not [name for name in beit.model.state_dict() if "codebook" in name]  # the tokenizer stays where it is


def test_eval_finds_the_tokenizer_again(beit, stripes):
    found = evaluate(beit.path, workers=0)
    assert found == pytest.approx(beit.metrics)


def test_labels_go_on_from_it(beit, stripes, tmp_path):
    run = train(data=stripes, weights=beit.path, out=tmp_path / "labels", **{**QUICK, "epochs": 1})
    assert (run.model.config.position, run.model.config.layer_scale) == ("relative_table", 0.1)
    assert run.model.num_classes == 2


def test_a_tokenizer_that_is_gone(beit, stripes, tmp_path):
    path = beit.path / "config.yaml"
    kept = path.read_text()
    path.write_text(kept.replace(yaml.safe_load(kept)["tokenizer"], str(tmp_path / "gone")))
    try:
        with pytest.raises(VitrailError, match=r"gone: it cannot be read, and is needed for its codes \(.*no such file"):
            evaluate(beit.path, workers=0)
    finally:
        path.write_text(kept)


def test_wrong_wishes(beit, vocabulary, stripes, tmp_path):
    def refused(match, **options):
        with pytest.raises(VitrailError, match=match):
            train(data=stripes, out=tmp_path / "x", **QUICK, **options)

    refused("--method beit needs --tokenizer RUN, .*--method dvae --data DIR --out RUN", task="beit")
    refused("a discrete VAE is needed, got a beit", task="beit", tokenizer=beit.path)
    refused(
        "a code for each 2x2 pixels, the model's patches are 4x4",
        task="beit",
        tokenizer=vocabulary.path,
        model="beit_nano_patch4_32",
    )
    refused("reads 1 channel.*the model 3", task="beit", tokenizer=vocabulary.path, in_channels=3)
    refused("whose tokens are patches", task="beit", tokenizer=vocabulary.path, model="vit_nano_conv")
    refused("--method dvae takes a dvae, got a vit", task="dvae", model="vit_nano_conv")
    refused("--method dvae takes a dvae, got a beit", task="dvae", weights=beit.path)
    refused("--codes 9: the model of --weights has 8", task="dvae", weights=vocabulary.path, codes=9)
    refused("--temperature must be above 0", task="dvae", temperature=-1.0)
    refused("--codes must be at least 2, got 1", task="dvae", codes=1)
    refused("drop_path.* is an option of --task .*beit", task="dvae", drop_path=0.5)
    refused("dvae has no features of images to go on with", weights=vocabulary.path)
    refused("--mask-ratio must be between 0 and 1, got 1", task="beit", tokenizer=vocabulary.path, mask_ratio=1.0)


# The tasks by themselves


def tiny(codes=5):
    torch.manual_seed(0)
    backbone = vt.create_model(
        "beit_nano_patch2_32", width=8, depth=1, heads=2, image_size=(4, 6), in_channels=1, num_classes=0
    )
    return assemble_beit(backbone, BEiTConfig(backbone=to_record(backbone.config), codes=codes))


def batch_of(count, seed=0):
    images = torch.randn(count, 1, 4, 6, generator=torch.Generator().manual_seed(seed))
    return Batch(images, torch.zeros(count, dtype=torch.int64), torch.arange(count))


def tokenizer(codes=5):
    return build_dvae(DVAEConfig(width=4, depth=0, codes=codes, stride=2, image_size=(8, 8), in_channels=1))


def test_beit_task():
    task = NamingHidden(tiny(), tokenizer())
    assert isinstance(task, Objective)
    whole = batch_of(7)
    parts = [Batch(*(part[rows] for part in whole)) for rows in (slice(0, 3), slice(3, 7))]
    one, other = task.evaluate([whole]), task.evaluate(parts)
    assert isinstance(one, Evaluation)
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-6)
    assert (one.codes == other.codes).all()
    assert one.codes.shape == (7, 2)  # 40 % of 2x3
    task.loss(whole).backward()
    assert all(parameter.grad is None for parameter in task.tokenizer.parameters())
    assert task.model.mask_token.grad.any()
    assert task.evaluate([]).metrics["accuracy"] == 0.0


def test_numbers_of_beit_by_hand():
    found = NamedPatches(losses=np.array([1.0, 3.0]), right=np.array([2, 1]), codes=np.array([[0, 4, 4], [4, 1, 0]]))
    assert found.metrics == {"loss": 2.0, "accuracy": 3 / 6, "most_frequent": 3 / 6}
    assert found.error == pytest.approx(1 / 6)
    assert found.warning.startswith("50.00 % of the masked codes are predicted correctly; the most frequent")
    assert replace(found, right=np.array([2, 2])).warning == ""
    assert [count_hidden(share, 10) for share in (0.01, 0.4, 0.99)] == [1, 4, 9]


def test_images_as_another_model_reads_them():
    raw = torch.rand(2, 3, 4, 5)
    one = Preprocessing(size=(4, 5), mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    other = Preprocessing(size=(4, 5), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))

    def normalized(how):
        mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
        return (raw - mean) / std

    torch.testing.assert_close(as_read_by(normalized(one), one, other), normalized(other))
    assert as_read_by(raw, one, replace(one, size=(9, 9))) is raw


def test_dvae_task():
    task = Coding(
        build_dvae(DVAEConfig(width=4, depth=1, codes=5, stride=2, image_size=(4, 6), in_channels=1)), temperature=0.1
    )
    assert isinstance(task, Objective)
    assert isinstance(task, Following)
    assert (task.temperature, task.choice) == (1.0, 0.0)
    task.before_step(1.0)
    assert (task.temperature, task.choice) == (pytest.approx(0.1), pytest.approx(task.last_choice))
    whole = batch_of(7)
    found = task.evaluate([whole])
    assert found.codes.shape == (7, 6)
    assert found.metrics["codes_used"] == len(np.unique(found.codes))
    drawn = task.model.decode(task.model.codes(whole.images)).detach()
    np.testing.assert_allclose(found.losses, (drawn - whole.images).square().mean((1, 2, 3)).numpy(), rtol=1e-5)
    errors = 0.25 * (drawn - whole.images).square().mean((1, 2, 3))  # in [0, 1]: a new model's spread is 0.5
    np.testing.assert_allclose(found.psnr, (-10 * errors.log10()).numpy(), rtol=1e-5)
    printed = describe_scores(task.score, {**found.metrics, "psnr": 20.0}, METRICS)
    assert printed == f"PSNR 20.00 dB  codes used {found.usage.used}"
    first, optimizer = task.loss(whole).item(), torch.optim.AdamW(task.model.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        task.loss(whole).backward()
        optimizer.step()
    assert task.loss(whole).item() < first
    assert isinstance(
        CodedImages(losses=np.empty(0), psnr=np.empty(0), codes=np.empty((0, 6), dtype=int), vocabulary=5).metrics, dict
    )


@pytest.mark.slow
def test_two_processes_are_one_run(vocabulary, stripes, environment, tmp_path):
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vitrail", "pretrain"]
    line += ["--method", "beit", "--data", str(stripes), "--tokenizer", str(vocabulary.path), "--epochs", "1", "--batch", "16"]
    line += ["--workers", "0", "--out", str(tmp_path / "both")]
    done = subprocess.run(
        line, env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(json.loads((tmp_path / "both" / "metrics.json").read_text())) == {"split", "loss", "accuracy", "most_frequent"}
    assert (tmp_path / "both" / "report.html").is_file()
