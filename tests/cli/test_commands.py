"""What the commands write and print when all is well."""

import csv
import io
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail.cli.app import run as run_command
from vitrail.cli.words import spell_words
from vitrail.data.digits import open_digits
from vitrail.models.catalogue import MODELS, PRESETS

pytestmark = pytest.mark.usefixtures("digits_run", "quick_report")  # in this order: one whole report is enough
TINY = ("--model", "vit_nano_conv", "--epochs", "1", "--batch-size", "48")
WEIGHTS = ("best/model.safetensors", "last/model.safetensors")


def read_config(run: Path) -> dict[str, object]:
    return yaml.safe_load((run / "config.yaml").read_text())


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven digits as files, in two folders, one of them a JPEG, and a file that only looks like an image."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "more").mkdir()
    test = open_digits()["test"]
    for number in range(7):
        name = f"{number}.png" if number < 4 else f"more/{number}.jpg"
        test[number][0].save(folder / name)
    (folder / "more" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    return folder


# ---------------------------------------------------------------------------------------------------------------- train


def test_train_writes_the_whole_run_folder(digits_run):
    run, answer = digits_run
    assert (answer.code, answer.err) == (0, "")
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    model = {"config.json", "model.safetensors", "README.md"}
    assert found == {
        "config.yaml", "machine.yaml", "results.csv", "metrics.jsonl", "metrics.json", "predictions.csv", "report.html",
        "wrong_labels.csv", "example.png",
        *(f"{name}/{file}" for name in ("best", "last") for file in model),
        "state/step-000000004/SHA256SUMS", "state/step-000000004/state.json", "state/step-000000004/state.safetensors",
    }  # fmt: skip
    assert "<html" in (run / "report.html").read_text()


def test_the_last_line_is_the_score(digits_run):
    run, answer = digits_run
    last = answer.out.splitlines()[-1]
    assert re.fullmatch(r"test accuracy \d{1,3}\.\d\d %", last)
    accuracy = json.loads((run / "metrics.json").read_text())["accuracy"]
    assert last == f"test accuracy {100 * accuracy:.2f} %"
    assert "\x1b" not in answer.out, "plain lines where there is no terminal"


def test_results_have_one_row_per_epoch_and_metrics_one_record_per_step(digits_run):
    run, _ = digits_run
    rows = list(csv.DictReader((run / "results.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["1"]
    measured = [f"val_{name}" for name in ("loss", "accuracy", "macro_f1", "balanced_accuracy", "ece")]
    assert list(rows[0]) == ["epoch", "train_loss", *measured, "lr", "seconds"]
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert list(steps[0]) == ["step", "epoch", "loss", "lr", "gradient"]
    assert float(rows[0]["train_loss"]) == pytest.approx(np.mean([step["loss"] for step in steps]))


def test_predictions_agree_with_the_score(digits_run):
    run, answer = digits_run
    rows = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))
    assert len(rows) == 359
    accuracy = np.mean([row["truth"] == row["predicted"] for row in rows])
    assert answer.out.splitlines()[-1] == f"test accuracy {100 * accuracy:.2f} %"


def test_config_says_everything_and_what_auto_chose(digits_run):
    config = read_config(digits_run[0])
    assert "auto" not in config.values()
    assert config["image_size"] == [8, 8]
    assert (config["data"], config["recipe"], config["in_channels"], config["flip"]) == ("digits", "tiny", 1, False)
    assert not {"out", "resume", "config"} & config.keys()


def test_the_weights_file_holds_weights_only(digits_run):
    raw = (digits_run[0] / "best" / "model.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert "__metadata__" not in header
    assert header.keys() == vt.load(digits_run[0]).state_dict().keys()


def test_options_in_every_spelling(command, arrays, tmp_path):
    run = tmp_path / "lr=1"  # a value with = in it is a value
    answer = command("train", f"data={arrays}", *TINY, "lr=1e-3", "--image_size", 12, 10, "weight-decay=0.125", "flip=true",
                     "--out", run)  # fmt: skip
    assert answer.code == 0
    config = read_config(run)
    assert (config["lr"], config["image_size"], config["weight_decay"]) == (1e-3, [12, 10], 0.125)
    assert config["flip"] is True
    assert vt.load(run).image_size == (12, 10)


@pytest.mark.parametrize(
    "words, plain",
    [
        (["lr=1e-3"], ["--lr=1e-3"]),
        (["image-size=12"], ["--image-size=12"]),
        (["image_size=12"], ["--image-size=12"]),
        (["resume=true"], ["--resume"]),
        (["resume=False"], []),
        (["flip=false"], ["--no-flip"]),
        (["data=true"], ["--data=true"]),
        (["--out", "lr=3"], ["--out", "lr=3"]),
        (["--resume", "lr=3"], ["--resume", "--lr=3"]),
        (["--out=a", "lr=3"], ["--out=a", "--lr=3"]),
        (["data=a=b"], ["--data=a=b"]),
    ],
)
def test_words_become_options(words, plain):
    assert spell_words(["train", *words]) == ["train", *plain]


def test_a_file_with_an_equals_sign_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=1.png").touch()
    assert spell_words(["predict", "run", "seed=1.png"]) == ["predict", "run", "seed=1.png"]


def test_options_win_over_config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("data: digits\nminutes: 3\nlr: 1e-3\nimage-size: [8, 8]\nflip: false\ncompile: false\nweights: null\n")
    assert spell_words(["train", "--config", str(path), "lr=2"]) == [
        "train", "--lr=2", "--data=digits", "--minutes=3", "--image-size", "8", "8", "--no-flip",
    ]  # fmt: skip
    assert "--minutes=3" not in spell_words(["train", f"--config={path}", "--epochs", "2"]), "another way to say how long"


def test_config_repeats_a_run_bit_for_bit(command, arrays, tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    # augmentation and stochastic depth on: everything that is random takes part
    options = ("--data", arrays, *TINY, "--seed", 3, "--recipe", "tiny")
    assert command("train", *options, "--out", first).code == 0
    assert command("train", "--config", first / "config.yaml", "--out", second).code == 0
    for file in (*WEIGHTS, "best/config.json", "config.yaml", "predictions.csv", "metrics.jsonl", "metrics.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes(), file
    assert command("train", "--config", first / "config.yaml", "--seed", 4, "--out", third).code == 0
    assert read_config(third) == read_config(first) | {"seed": 4}
    assert (first / WEIGHTS[0]).read_bytes() != (third / WEIGHTS[0]).read_bytes()


def test_the_seed_decides_the_first_weights(arrays, tmp_path):
    """A rate of almost nothing leaves them as they were made: by the model's own name, after this seed."""
    options = {
        "data": arrays,
        "model": "vit_nano_conv",
        "recipe": "plain",
        "epochs": 1,
        "batch": 48,
        "workers": 0,
        "quiet": True,
    }
    run = vt.train(**options, lr=1e-30, weight_decay=0.0, seed=11, out=tmp_path / "run")
    torch.manual_seed(11)
    expected = vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1)
    found = dict(vt.load(run.path / "last").named_parameters())
    for name, weight in expected.named_parameters():
        assert torch.allclose(found[name], weight, rtol=0, atol=1e-12), name


def test_runs_are_numbered_and_never_overwritten(command, arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert command("train", "--data", arrays, *TINY).code == 0
    assert sorted(path.name for path in (tmp_path / "runs" / "classify").iterdir()) == ["quadrants", "quadrants-2"]


def test_weights_start_a_new_run(command, arrays, digits_run, tmp_path):
    """Body and preprocessing are the old model's, the head is new, and the recipe is this run's."""
    words = ("--epochs", 1, "--batch-size", 48, "lr=1e-12", "--drop-path", 0.3)  # a rate that leaves the weights as they were
    assert command("train", "--data", arrays, "--weights", digits_run[0], *words, "--out", tmp_path / "run").code == 0
    old, new = vt.load(digits_run[0]), vt.load(tmp_path / "run")
    assert new.labels == ("0", "1", "2")
    assert new.preprocessing == old.preprocessing
    assert new.config.drop_path == 0.3 != old.config.drop_path
    for name, weight in old.encoder.state_dict().items():
        torch.testing.assert_close(new.encoder.state_dict()[name], weight)


def test_train_in_python_is_the_command(command, arrays, tmp_path, capsys):
    assert command("train", "--data", arrays, *TINY, "--image-size", 8, "--out", tmp_path / "a").code == 0
    run = vt.train(data=arrays, model="vit_nano_conv", epochs=1, batch=48, image_size=8, out=tmp_path / "b", quiet=True)
    assert capsys.readouterr().out == ""
    assert run.path == tmp_path / "b"
    assert (tmp_path / "a" / WEIGHTS[0]).read_bytes() == (run.path / WEIGHTS[0]).read_bytes()
    assert run.metrics == {
        name: value
        for name, value in json.loads((run.path / "metrics.json").read_text()).items()
        if name not in ("split", "interval")
    }
    assert vt.evaluate(run.path) == run.metrics
    with pytest.raises(vt.VitrailError, match=r'unknown key "epoch"; did you mean "epochs"'):
        vt.train(data="digits", epoch=1)


# ----------------------------------------------------------------------------------------------------------------- eval


def test_eval_repeats_the_score(command, digits_run):
    run, trained = digits_run
    for place in (run, run / "best"):
        answer = command("eval", place)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.splitlines()[-1] == trained.out.splitlines()[-1]
    found = json.loads(command("eval", run, "--json", "--batch-size", 17).out)
    assert found.pop("split") == "test"
    assert found == pytest.approx(vt.evaluate(run), rel=1e-5)


def test_eval_of_a_split_with_a_report(command, digits_run, tmp_path):
    answer = command("eval", digits_run[0], "--split", "val", "--out", tmp_path / "scores")
    assert answer.out.splitlines()[-1].startswith("val accuracy ")
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == ["predictions.csv", "report.html"]


def test_eval_divides_the_same_data_as_training_did(command, tmp_path, digits_run):
    """Without a test split of its own, data is divided by the run's seed: no training image is ever scored as test."""
    whole = open_digits()["train"]
    np.savez(tmp_path / "whole.npz", images=np.stack([np.asarray(whole[i][0]) for i in range(120)]), labels=whole.labels[:120])
    run = tmp_path / "run"
    assert command("train", "--data", tmp_path / "whole.npz", *TINY, "--seed", 5, "--out", run).code == 0
    for number, words in enumerate(([], ["--data", tmp_path / "whole.npz"])):
        assert command("eval", run, *words, "--out", tmp_path / f"{number}").code == 0
        assert (tmp_path / f"{number}" / "predictions.csv").read_bytes() == (run / "predictions.csv").read_bytes()


def test_validation_is_what_eval_says_of_val(command, arrays, tmp_path):
    """Every image of it, as it is, divided by the run's own seed and share: not moved about, and the last batch is not full."""
    run = tmp_path / "run"
    words = ("--recipe", "tiny", "--shift", 0.3, "--rotate", 60, "--batch", 16, "--epochs", 1, "--seed", 3, "--val-share", 0.4)
    assert command("train", "--data", arrays, "--model", "vit_nano_conv", *words, "--out", run).code == 0
    [row] = csv.DictReader((run / "results.csv").read_text().splitlines())
    found = json.loads(command("eval", run, "--split", "val", "--json", "--out", tmp_path / "scores").out)
    assert len((tmp_path / "scores" / "predictions.csv").read_text().splitlines()) == 1 + 3 * 15  # 0.4 of the 37 of each class
    assert found["loss"] == pytest.approx(float(row["val_loss"]), rel=1e-5)
    assert found["accuracy"] == pytest.approx(float(row["val_accuracy"]))


def test_eval_matches_classes_by_name(command, digits_run, tmp_path):
    """A folder with two of the ten digits, in which "7" is class 0."""
    test = open_digits()["test"]
    for name in ("train", "test"):
        for index in range(60):
            image, label = test[index]
            if label in (7, 9):
                (tmp_path / "some" / name / str(label)).mkdir(parents=True, exist_ok=True)
                image.save(tmp_path / "some" / name / str(label) / f"{index}.png")
    assert command("eval", digits_run[0], "--data", tmp_path / "some", "--workers", 0, "--out", tmp_path / "scores").code == 0
    rows = list(csv.DictReader((tmp_path / "scores" / "predictions.csv").read_text().splitlines()))
    assert {row["truth"] for row in rows} == {"7", "9"}
    assert all(Path(row["picture"]).parent.name == row["truth"] for row in rows)


def test_eval_scores_all_of_other_data_that_is_not_divided(command, digits_run, tmp_path):
    test = open_digits()["test"]
    for index in range(30):
        image, label = test[index]
        (tmp_path / "new" / str(label)).mkdir(parents=True, exist_ok=True)
        image.save(tmp_path / "new" / str(label) / f"{index}.png")
    assert command("eval", digits_run[0], "--data", tmp_path / "new", "--workers", 0, "--out", tmp_path / "scores").code == 0
    assert len((tmp_path / "scores" / "predictions.csv").read_text().splitlines()) == 31


# -------------------------------------------------------------------------------------------------------------- predict


def test_predict_a_file(command, digits_run, images):
    answer = command("predict", digits_run[0], images / "0.png", "--top-k", 2)
    assert (answer.code, answer.err) == (0, "")
    assert re.fullmatch(rf"{re.escape(str(images / '0.png'))}  (\d +\d+\.\d %(   )?){{2}}\n", answer.out)


def test_predict_in_hugging_face_shapes(command, digits_run, images):
    one = json.loads(command("predict", digits_run[0], images / "0.png", "--json").out)
    assert [sorted(row) for row in one] == [["label", "score"]] * 3
    many = json.loads(command("predict", digits_run[0], images / "0.png", images / "1.png", "--json", "top_k=10").out)
    assert [len(rows) for rows in many] == [10, 10]
    assert [row["label"] for row in many[0][:3]] == [row["label"] for row in one]
    assert [row["score"] for row in many[0][:3]] == pytest.approx([row["score"] for row in one], abs=1e-6)
    assert sum(row["score"] for row in many[0]) == pytest.approx(1, abs=1e-6)


def test_predict_a_glob_and_a_folder_each_file_once(command, digits_run, images):
    answer = command("predict", digits_run[0], images / "*.png", images / "more" / "*.jpg", images / "0.png")
    assert (answer.code, answer.err) == (0, "")
    names = [Path(line.split()[0]).name for line in answer.out.splitlines()]
    assert names == ["0.png", "1.png", "2.png", "3.png", "4.jpg", "5.jpg", "6.jpg"]


def test_an_unreadable_image_does_not_stop_the_others(command, digits_run, images):
    answer = command("predict", digits_run[0], images)
    assert answer.code == 2
    assert len(answer.out.splitlines()) == 7
    assert answer.err.count("\n") == 1
    assert "broken.png" in answer.err
    answer = command("predict", digits_run[0], images, "--json")
    assert answer.code == 2
    assert [row is None for row in json.loads(answer.out)] == [False] * 4 + [False] * 3 + [True]


def test_predict_agrees_with_eval(command, digits_run, tmp_path):
    run, test = digits_run[0], open_digits()["test"]
    for index in range(20):
        test[index][0].save(tmp_path / f"{index:02}.png")
    answers = json.loads(command("predict", run, tmp_path, "--json").out)
    rows = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))[:20]
    assert [answer[0]["label"] for answer in answers] == [row["predicted"] for row in rows]
    assert [answer[0]["score"] for answer in answers] == pytest.approx([float(row["confidence"]) for row in rows], abs=1e-5)


# --------------------------------------------------------------------------------------------------------------- models


def test_models_lists_what_matches(command):
    rows = json.loads(command("models", "vit_*_conv", "--json").out)
    assert [row["name"] for row in rows] == vt.list_models("vit_*_conv") == ["vit_micro_conv", "vit_mini_conv", "vit_nano_conv"]
    nano = vt.create_model("vit_nano_conv")
    assert rows[-1]["parameters"] == sum(parameter.numel() for parameter in nano.parameters())
    assert rows[-1]["image_size"] == list(nano.image_size)
    table = command("models", "vit_nano_con?").out.splitlines()
    assert len(table) == 2
    assert f"{rows[-1]['parameters']:,}" in table[1]


def test_models_in_a_pipe_are_a_table_of_one_line_each(command):
    """Every line has as many words as the first, and columns stand under each other; names in alphabetical order."""
    lines = command("models").out.splitlines()
    head, *rows = (line.split() for line in lines)
    assert head == ["name", "parameters", "width", "depth", "heads", "patch", "reads", "family"]
    assert {len(row) for row in rows} == {len(head)}
    assert [row[0] for row in rows] == vt.list_models()
    assert {row[-1] for row in rows} == set(PRESETS)
    begins, ends = (lines[0].index(name) for name in ("reads", "family"))
    assert {line[begins - 1] + line[ends - 1] for line in lines} == {"  "}
    assert {line[ends] == " " for line in lines} == {False}
    right = lines[0].index("parameters") + len("parameters")
    assert all(line[right - 1] != " " and line[right] == " " for line in lines)


def test_models_on_a_terminal_stand_under_their_family(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert run_command(["models", "*_micro*"]) == 0
    head, *lines = sys.stdout.getvalue().splitlines()
    assert head.split() == ["name", "parameters", "width", "depth", "heads", "patch", "reads"]
    families, known = {}, None
    for line in lines:
        if line and not line.startswith(" "):
            known = families.setdefault(line, [])
        elif line:
            known.append(line.split()[0])
            assert line[head.index("width") - 2] == " "
    assert sorted(name for names in families.values() for name in names) == vt.list_models("*_micro*")
    assert list(families) == sorted(families)
    assert all(MODELS[name][0] == family for family, names in families.items() for name in names)
    assert {"deit_micro_patch4_32", "vit_micro_conv"} <= set(families["vit"])


def test_a_folder_of_images_trains(command, images, tmp_path):
    """Files, read by a worker process; a gray image among colored ones makes the data colored."""
    for name in ("dark", "light"):
        for number in range(8):
            shade = (40 if name == "dark" else 200) + number
            (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
            mode, color = ("L", shade) if number else ("RGB", (shade, 0, shade))
            Image.new(mode, (9 + number, 12), color).save(tmp_path / "data" / name / f"{number}.png")
    run = tmp_path / "run"
    assert command("train", "--data", tmp_path / "data", "--model", "vit_nano_conv", "--epochs", 1, "--out", run).code == 0
    config = read_config(run)
    assert (config["in_channels"], config["flip"], config["image_size"]) == (3, True, [12, 12])
    shutil.rmtree(tmp_path / "data")
    answer = command("eval", run)
    assert (answer.code, answer.err.count("\n")) == (2, 1)


def test_a_run_knows_its_data_from_any_folder(command, arrays, tmp_path, monkeypatch):
    shutil.copy(arrays, tmp_path / "here.npz")
    monkeypatch.chdir(tmp_path)
    assert command("train", "--data", "here.npz", *TINY, "--out", "run").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command("eval", "../run").code == 0
