"""Captions from a folder to a run, and what can be done with it: one small run for all tests."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.cli.app import run as vitrail
from vitrail.errors import VitrailError
from vitrail.learn.optim.groups import layer_groups
from vitrail.models.folder import load
from vitrail.tasks.caption.options import Options, caption_recipe
from vitrail.tasks.options import read_record

COLORS = {"red": (230, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 230)}
QUICK = ("--batch-size", "12", "--max-length", "9", "--workers", "0", "--num-beams", "2")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty plain images of 16 pixels, a broken one, and one that is not there."""
    folder, generator = tmp_path_factory.mktemp("colors"), np.random.default_rng(0)
    captions: dict[str, object] = {"gone.png": "nobody saw it", "broken.png": "a broken one"}
    (folder / "broken.png").write_bytes(b"no image")
    for number in range(60):
        name, color = list(COLORS.items())[number % 3]
        noise = generator.integers(-15, 15, (16, 16, 3))
        Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(folder / f"{number:02}.png")
        captions[f"{number:02}.png"] = [f"a {name} image", f"all {name}"] if number % 2 else f"a {name} image"
    (folder / "captions.json").write_text(json.dumps(captions))
    return folder


@pytest.fixture(scope="module")
def trained(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "colors"
    assert vitrail(["train", "--task", "caption", "--data", str(images), "--out", str(folder), "--epochs", "2", *QUICK]) == 0
    return folder


def test_a_run_has_everything(trained: Path, images: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    assert set(metrics) == {"split", "interval", "loss", "bleu", "signature"}
    with (trained / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert list(rows[0]) == ["picture", "caption", "reference_1", "reference_2"]
    for row in rows:
        number = int(Path(row["picture"]).stem)
        assert row["reference_1"] == f"a {list(COLORS)[number % 3]} image"
    page = (trained / "report.html").read_text()
    assert "Best" in page
    assert rows[0]["caption"] in page
    assert "broken.png" in (trained / "bad_files.csv").read_text()
    assert "vitrail caption" in (trained / "best" / "README.md").read_text()
    model = load(trained)
    assert model.tokenizer.to_json() == (trained / "tokenizer.json").read_text().strip()
    assert model.config.vocabulary == len(model.tokenizer)


def test_the_last_line_is_the_score_and_eval_gives_it_again(
    trained: Path, images: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    line = f"test BLEU {100 * metrics['bleu']:.2f}"
    again = command("train", "--task", "caption", "--data", images, "--out", trained, "--resume")
    assert again[1].strip().splitlines()[-1] == line
    scored = command("eval", trained, "--workers", "0", "--batch-size", "5")
    assert scored[1].strip().splitlines()[-1] == line


@pytest.mark.figures
def test_captions_of_files(trained: Path, images: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    look = tmp_path / "look"
    code, out, err = command("caption", trained, images / "01.png", images / "broken.png", images / "02.png", "--out", look)
    assert code == 2
    assert "broken.png: not an image" in err
    lines = out.strip().splitlines()
    assert [Path(line.split()[0]).name for line in lines] == ["01.png", "02.png"]
    assert sorted(path.name for path in look.iterdir()) == ["001_01.png", "002_02.png"]
    with Image.open(look / "001_01.png") as figure:
        assert figure.width > 1000
    code, out, _ = command("caption", trained, images / "01.png", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer == vt.pipeline("image-to-text", trained)(images / "01.png")
    assert [answer] == vt.pipeline("image-to-text", load(trained))([images / "01.png"])
    assert lines[0].endswith(answer[0]["generated_text"])
    assert "exists and is not an empty folder" in command("caption", trained, images / "01.png", "--out", look)[2]
    assert "--num-beams must be at least 1, got 0" in command("caption", trained, images / "01.png", "--beams", "0")[2]


@pytest.mark.parametrize("model", ["show_attend_tell_soft", "show_attend_tell_hard"])
def test_show_attend_and_tell_by_the_same_command(
    model: str, images: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
    words = ("--model", model, *QUICK, "--epochs", "1")
    code, out, err = command("train", "--task", "caption", "--data", images, "--out", tmp_path / "run", *words)
    assert code == 0, err
    assert out.strip().splitlines()[-1].startswith("test BLEU ")
    assert json.loads((tmp_path / "run" / "best" / "config.json").read_text())["architecture"] == "show_attend_tell"


def test_a_model_of_another_kind_or_an_option_without_meaning_is_refused(
    images: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    start = ("train", "--task", "caption", "--data", images)
    assert "vit_nano_conv does not fit --task caption; captioner_micro does" in command(*start, "--model", "vit_nano_conv")[2]
    assert "--source is an option of --task translate only" in command(*start, "--source", "de")[2]
    options = {"data": "x", "task": "caption"}
    for name, value in {"mixup": 0.4, "balance": "weights", "progressive": 0.5, "batch_tokens": 100, "shard": True}.items():
        assert name not in Options.__dataclass_fields__
        with pytest.raises(VitrailError, match=f"test: .*{name}"):
            read_record(Options, {**options, name: value}, what="test")
    assert read_record(Options, {**options, "mixup": 0.0, "repeats": 1}, what="test") == Options(data="x")


def test_muon_is_for_blocks_and_small_images() -> None:
    assert caption_recipe("small", size=(64, 64), hidden=True)["optimizer"] == "muon"
    assert caption_recipe("small", size=(64, 64), hidden=False)["optimizer"] == "adamw"
    assert caption_recipe("small", size=(224, 224), hidden=True)["optimizer"] == "adamw"
    assert caption_recipe("plain", size=(64, 64), hidden=True)["optimizer"] == "adamw"


def test_of_a_captioner_the_matrices_of_both_stacks_are_hidden_and_words_are_not() -> None:
    model = vt.create_model("captioner_micro", vocabulary=20, image_size=16)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = layer_groups(model, 0.1, layer_decay=0.5)
    hidden = {names[id(p)] for group in groups if group["hidden"] for p in group["params"]}
    assert {name for name in names.values() if ".blocks." in name and model.get_parameter(name).ndim > 1} <= hidden
    assert hidden.isdisjoint({"words.table.weight", "encoder.tokenizer.stages.0.weight", "encoder.position.table"})
    scales = {names[id(p)]: group["scale"] for group in groups for p in group["params"]}
    assert scales["encoder.tokenizer.stages.0.weight"] == 0.5**3  # two blocks above it, and the decoder
    assert scales["encoder.encoder.blocks.1.attention.query.weight"] == 0.5
    assert scales["decoder.blocks.0.attention.query.weight"] == scales["words.table.weight"] == 1.0


def test_of_shapes_the_share_exactly_right_is_the_score(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitrail.data.captions.SHAPE_COUNTS", {"train": 30, "val": 6, "test": 9})
    words = ("--image-size", "16", "--epochs", "1", "--out", tmp_path / "run", *QUICK)
    code, out, err = command("train", "--task", "caption", "--data", "shapes", *words)
    assert code == 0, err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert out.strip().splitlines()[-1] == f"test exact {100 * metrics['exact']:.2f} %"
    assert "val_exact" in (tmp_path / "run" / "results.csv").read_text()
    assert "Wrong" in (tmp_path / "run" / "report.html").read_text()
    tokenizer = load(tmp_path / "run").tokenizer
    assert len(tokenizer.encode("a large red circle")) == 4  # whole words


def test_predict_is_caption_with_the_options_of_the_task(
    trained: Path, images: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    files = (images / "01.png", images / "02.png")
    assert command("predict", trained, *files, "--num-beams", 2)[1] == command("caption", trained, *files, "--beams", 2)[1]
    code, out, err = command("predict", trained, *files, images / "broken.png", "--json")
    assert (code, json.loads(out)[2]) == (2, None)
    assert "broken.png: not an image" in err
    assert json.loads(out)[0] == vt.pipeline("image-to-text", trained)(images / "01.png")
