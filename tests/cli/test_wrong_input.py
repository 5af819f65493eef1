"""An error of the user is one line on stderr that names the value and the rule, exit code 2, no traceback."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.cli.app import run


def draw(path: Path, *, side: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side), 90, dtype=np.uint8)).save(path)


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, digits_run) -> Path:
    """A folder with one of everything that can be wrong."""
    place = tmp_path_factory.mktemp("place")
    (place / "empty").mkdir()
    (place / "file").write_text("not a folder")
    (place / "text.png").write_text("not an image")
    (place / "pickle.pth").write_bytes(b"\x80\x04.")
    for number in range(3):
        draw(place / "one_class" / "cat" / f"{number}.png")
        for name in ("cat", "dog"):
            draw(place / "pets" / name / f"{number}.png")
            draw(place / "no_test" / "train" / name / f"{number}.png")
            (place / "no_test" / "test" / name).mkdir(parents=True, exist_ok=True)
    (place / "unknown_key.yaml").write_text("data: digits\nepoch: 3\n")
    (place / "bad_value.yaml").write_text("data: digits\nepochs: many\n")
    (place / "list.yaml").write_text("- data\n")
    (place / "broken.yaml").write_text("data: [digits\n")
    np.savez(place / "no_labels.npz", x_train=np.zeros((4, 8, 8), np.uint8))
    best = digits_run[0] / "best"
    for name in ("truncated", "no_weights", "not_json", "unknown_architecture", "other_weights", "new_format"):
        shutil.copytree(best, place / name)
    weights = (best / "model.safetensors").read_bytes()
    (place / "truncated" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    (place / "no_weights" / "model.safetensors").unlink()
    (place / "not_json" / "config.json").write_text('{"library": ')
    change_config(place / "unknown_architecture", architecture="vitt")
    change_config(place / "new_format", format=99)
    config = json.loads((best / "config.json").read_text())["config"]
    change_config(place / "other_weights", config=config | {"depth": 5})
    shutil.copytree(digits_run[0], place / "run")
    return place


TRAIN = "train --data digits"
WRONG = {
    # unknown names, with the nearest right one
    "trian --data digits": ["trian", "train"],
    f"{TRAIN} --eppochs 1": ["--eppochs", "--epochs"],
    f"{TRAIN} epohcs=1": ["epohcs", '"epochs"'],
    f"{TRAIN} --position lerned_1d": ["lerned_1d", '"learned_1d"'],
    f"{TRAIN} position=sinusoid_2d": ["sinusoid_2d", '"sinusoidal_2d"'],
    f"{TRAIN} --position-where leyers": ["leyers", "layers"],
    f"{TRAIN} --position rotary --position-where stem": ["stem", "rotary", '"layers"'],
    f"{TRAIN} --attention softmx": ["softmx", '"softmax"'],
    f"{TRAIN} --recipe tny": ["tny", '"tiny"'],
    f"{TRAIN} --model vit_nano_con": ["vit_nano_con", '"vit_nano_conv"'],
    f"{TRAIN} --model vit_tiny": ['"vit_tiny"', 'did you mean "vit_tiny_patch'],
    f"{TRAIN} --task clasify": ["clasify", '"classify"'],
    f"{TRAIN} --precision bf61": ["bf61", '"bf16"'],
    f"{TRAIN} --device gpu": ["gpu", "cpu", "cuda"],
    f"{TRAIN} --device meta": ["no device", "meta"],
    "eval run --splt test": ["--splt", "--split"],
    "eval run splt=test": ["splt", '"split"'],
    "eval run --split tst": ["tst", '"test"'],
    "predict run text.png topk=2": ["topk", '"top_k"'],
    "models --jsn": ["--jsn", "--json"],
    "models vit_nanoconv": ["vit_nanoconv", '"vit_nano_conv"'],
    "models nothing*": ["nothing*"],
    # numbers out of range
    f"{TRAIN} --epochs 0": ["--epochs", "at least 1", "got 0"],
    f"{TRAIN} --epochs 1.5": ["--epochs", '"1.5" into a whole number.'],
    f"{TRAIN} --epochs many": ["--epochs", '"many" into a whole number or auto.'],
    f"{TRAIN} --batch-size 0": ["--batch-size", "at least 1", "got 0"],
    f"{TRAIN} --lr -0.001": ["--lr", "above 0", "got -0.001"],
    f"{TRAIN} lr=-1": ["--lr", "above 0", "got -1"],
    f"{TRAIN} --lr fast": ["--lr", '"fast" into a number or auto.'],
    f"{TRAIN} --lr nan": ["--lr", "finite", "nan"],
    f"{TRAIN} --clip-grad inf": ["--clip-grad", "finite", "inf"],
    f"{TRAIN} --minutes 0": ["--minutes", "above 0", "got 0"],
    f"{TRAIN} --label-smoothing 1.5": ["--label-smoothing", "[0, 1)", "1.5"],
    f"{TRAIN} --drop-path 1": ["--drop-path", "[0, 1)", "got 1"],
    f"{TRAIN} --seed -1": ["--seed", "at least 0", "got -1"],
    f"{TRAIN} --seed 99999999999999999999": ["--seed", "at most", "99999999999999999999"],
    f"{TRAIN} --workers -1": ["--workers", "at least 0", "got -1"],
    f"{TRAIN} --in-channels 2": ["--in-channels", "1", "3", "got 2"],
    f"{TRAIN} --image-size 8 8 8": ["--image-size", "N or H W", "3 numbers"],
    f"{TRAIN} --image-size": ["--image-size", "N or H W", "0 numbers"],
    f"{TRAIN} --image-size 0": ["--image-size", "at least 1", "got 0"],
    f"{TRAIN} --image-size 8.5 8": ["--image-size", '"8.5" into a whole number.'],
    f"{TRAIN} --minutes 1 --epochs 2": ["--minutes", "--epochs", "one of them"],
    "eval run --batch-size 0": ["--batch-size", "at least 1", "0"],
    "predict run text.png --top-k 0": ["--top-k", "at least 1", "0"],
    # data
    "train": ["--data"],
    "train --data": ["--data"],
    "train --data=": ["--data", "empty"],
    f"{TRAIN} stray": ["stray"],
    f"{TRAIN} --lr 1 --lr 2": ["--lr", "multiple times"],
    "train --data no/such/place": ["no/such/place", "digits", "shapes"],
    "train --data digist": ["digist", '"digits"'],
    "train --data shape": ['"shape"', '"shapes"'],
    "train --data file": ["file", "folder", ".npz"],
    "train --data empty": ["empty", "no classes"],
    "train --data one_class": ["one_class", "two classes", "cat"],
    "train --data no_test": ["no_test/test", "empty"],
    "train --data no_labels.npz": ["no_labels.npz", "y_train"],
    f"{TRAIN} --model vit_tiny_patch16_224": ["8x8", "smaller", "16x16"],
    # folders and files of a run
    "eval": ["RUN"],
    "predict": ["RUN"],
    "predict run": ["FILES"],
    "eval nowhere": ["nowhere", "no such"],
    "eval runs/nowhere": ["runs/nowhere", "no such"],
    "eval owner/model": ["owner/model", "no such", "hub"],
    "eval empty": ["empty", "config.json"],
    "eval pickle.pth": ["pickle.pth", "pickle"],
    "eval run --data pets": ["pets", "does not know", "cat"],
    "eval truncated --data digits": ["truncated/model.safetensors", "truncated"],
    "eval no_weights --data digits": ["no_weights/model.safetensors", "missing"],
    "eval not_json --data digits": ["not_json/config.json", "JSON"],
    "eval unknown_architecture --data digits": ["unknown_architecture/config.json", "vitt"],
    "eval new_format --data digits": ["new_format/config.json", "99", "newer"],
    "predict other_weights pets": ["other_weights/model.safetensors", "misses", "blocks.3"],
    "eval no_weights": ["no_weights"],
    "eval run --out file": ["file"],
    "predict run nowhere.png": ["nowhere.png", "no such file"],
    "predict run nothing*.png": ["nothing*.png", "no such file"],
    "predict run empty": ["empty", "no images"],
    "predict run text.png": ["text.png", "not an image"],
    "predict nowhere pets": ["nowhere", "no such"],
    f"{TRAIN} --resume": ["--resume", "--out"],
    "train --out nowhere --resume": ["--resume", "nowhere", "no folder of a run"],
    "train --out empty --resume --finish": ["--resume", "empty", "no folder of a run"],
    "train --data no/such/place --resume": ["--resume", "--out"],  # said before the data is looked for
    "train --data no/such/place --out run": ["run", "never overwritten"],
    "train --data no/such/place --epochs 0": ["--epochs", "at least 1", "got 0"],
    f"{TRAIN} --out run": ["run", "never overwritten"],
    f"{TRAIN} --out file": ["file", "exists"],
    f"{TRAIN} --out file/inside": ["file/inside", "Not a directory"],
    f"{TRAIN} --weights run --model vit_nano_conv": ["--weights", "--model"],
    f"{TRAIN} --weights nowhere": ["nowhere", "no such"],
    f"{TRAIN} --weights truncated": ["truncated/model.safetensors", "truncated"],
    # --config
    "train --config": ["--config", "file"],
    "train --config unknown_key.yaml": ["unknown_key.yaml", '"epoch"', '"epochs"'],
    "train --config bad_value.yaml": ["--epochs", "many"],
    "train --config broken.yaml": ["broken.yaml", "YAML"],
    "train --config list.yaml": ["list.yaml", "list"],
    "train --config nowhere.yaml": ["nowhere.yaml", "no such file"],
    "train --config empty": ["empty", "irectory"],
    "train --config unknown_key.yaml --config list.yaml": ["--config", "once"],
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_wrong_input_gives_one_line_and_code_2(line, place, command, monkeypatch):
    monkeypatch.chdir(place)
    before = sorted(place.iterdir())
    answer = command(*line.split(" "))
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("vitrail: ")
    assert answer.err.count("\n") == 1
    assert answer.err.endswith("\n")
    assert "Traceback" not in answer.err
    for part in WRONG[line]:
        assert part in answer.err
    assert sorted(place.iterdir()) == before, "a refused command leaves nothing behind"


def test_a_model_that_cannot_be_scored_says_why(place, command, monkeypatch):
    monkeypatch.chdir(place)
    options = {"image_size": 8, "in_channels": 1}
    vt.save(vt.create_model("vit_nano_conv", num_classes=0, **options), place / "features")
    vt.save(vt.create_model("vit_nano_conv", num_classes=3, **options), place / "nameless")
    for name, part in {"features": "no classifier", "nameless": "10 classes"}.items():
        answer = command("eval", name, "--data", "digits")
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        assert part in answer.err


def test_debug_shows_the_traceback_and_then_the_line(command):
    answer = command("train", "--data", "digits", "--epochs", 0, "--debug")
    assert answer.code == 2
    assert answer.err.startswith("Traceback")
    assert answer.err.endswith("\nvitrail: --epochs must be at least 1, got 0\n")


@pytest.mark.parametrize("line", ["trian", "train --data digits lr=fast", "train --data digits --epochs 0"])
def test_a_process_says_the_same(line, process):
    answer = process(*line.split())
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith("vitrail: ")


def test_a_reader_that_goes_away_is_no_error(monkeypatch, capfd):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert run(["models", "vit_nano_conv"]) == 141
    assert capfd.readouterr().err == ""
