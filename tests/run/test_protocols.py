"""`vitrail eval --protocol`: what the cells measure, that they choose the images training chooses, and that they go on."""

import csv
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import vitrail as vt
from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import ArraySplit, DataSet, Part
from vitrail.data.label_share import keep_share
from vitrail.data.opening import find_data, open_data
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.folder import save
from vitrail.preprocessing import Preprocessing
from vitrail.report.protocols import Cell, mean_table
from vitrail.run import protocols
from vitrail.run.feature_table import FeatureTable, find_root
from vitrail.run.prepare import prepare
from vitrail.tasks.classify.options import Options

CLASSES, SIDE = 5, 4
pytestmark = pytest.mark.usefixtures("quick_report")


def labelled_images(count, *, seed=0):
    """Images of one gray, which is the label's: 10, 60, 110, ..., and labels in turn."""
    labels = np.arange(count) % CLASSES
    gray = (10 + 50 * labels).astype(np.uint8)
    return ArraySplit(np.repeat(gray, SIDE * SIDE).reshape(count, SIDE, SIDE), labels)


@pytest.fixture
def data():
    splits = {"train": labelled_images(55), "val": labelled_images(11), "test": labelled_images(23)}
    return DataSet(name="grays", classes=tuple("abcde"), splits=splits)


def make_table(describe, **changes):
    settings = {
        "what": "features",
        "batch": 7,
        "workers": 0,
        "bad": BadFiles(images=1, limit=1.0),
        "bar": ProgressBar(quiet=True),
    }
    plain = Preprocessing(size=(SIDE, SIDE), channels=1, mean=(0.0,), std=(1.0,))
    return FeatureTable(describe, plain, **(settings | changes))


def tell_label(images):
    """A backbone that passes the label through: one of five numbers is 1."""
    return F.one_hot(((255 * images[:, 0, 0, 0]).round().long() - 10) // 50, CLASSES).float()


def tell_nothing(images):
    return torch.ones(len(images), 3)


@pytest.mark.parametrize("read", [protocols.ask_neighbors, protocols.read_linear])
def test_features_that_are_the_label_are_read_without_a_mistake(data, read):
    for share in (0.1, 1.0):
        some = keep_share(data, share, seed=3)
        answers, test, words = read(make_table(tell_label), some)
        assert len(some["train"]) == (5 if share == 0.1 else 55)
        assert read is protocols.read_linear or words == ("5 neighbors" if share == 0.1 else "20 neighbors")
        assert answers.tolist() == test.labels.tolist() == [number % 5 for number in range(23)]


@pytest.mark.parametrize("read", [protocols.ask_neighbors, protocols.read_linear])
def test_features_that_tell_nothing_give_one_answer_for_all(data, read):
    answers, test, _ = read(make_table(tell_nothing), data)
    assert len(set(answers.tolist())) == 1
    assert (answers == test.labels).double().mean().item() == pytest.approx(0.2, abs=0.03)


def test_linear_is_not_misled_by_test(data):
    """The labels of test are wrong on purpose: what is fitted and chosen stays as it was."""
    twisted = DataSet(name="twisted", classes=data.classes, splits={**data.splits, "test": Part(data["test"], np.arange(23), labels=np.zeros(23, dtype=np.int64))})  # fmt: skip
    answers, _, chosen = protocols.read_linear(make_table(tell_label), data)
    again, test, chosen_again = protocols.read_linear(make_table(tell_label), twisted)
    assert (answers.tolist(), chosen) == (again.tolist(), chosen_again)
    assert test.labels.tolist() == [0] * 23


def test_a_table_reads_every_image_once(data):
    asked = []

    def describe(images):
        asked.append(len(images))
        return images.flatten(1)

    table = make_table(describe)
    small, large = keep_share(data, 0.2, seed=0)["train"], keep_share(data, 0.6, seed=0)["train"]
    few, more = table.of(small), table.of(large)
    assert sum(asked) == len(large) == 35  # those of the smaller share are among them
    assert set(few.names) < set(more.names)
    assert torch.equal(more.labels, torch.from_numpy(large.labels))
    assert torch.equal((255 * more.features[:, 0]).round().long(), 10 + 50 * more.labels)


def test_the_root_of_a_part_of_a_part(data):
    part = Part(Part(data["train"], np.array([4, 9, 2, 30])), np.array([3, 1]))
    root, numbers = find_root(part)
    assert root is data["train"]
    assert numbers.tolist() == [30, 9]


def test_an_image_that_has_gone_is_left_out(tmp_path):
    folder = tmp_path / "images"
    for number in range(12):
        path = folder / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        labelled_images(12).read(number).save(path)
    found = find_data(str(folder))["train"]
    gone = found.paths[3]
    gone.unlink()
    bad = BadFiles(images=12, limit=1.0)
    described = make_table(lambda images: images.flatten(1), bad=bad).of(found)
    assert len(described.features) == len(described.labels) == len(described.names) == 11
    assert str(gone) not in described.names
    assert list(bad.files) == [str(gone)]


def test_training_and_features_choose_the_same_images(arrays):
    options = Options(data=str(arrays), model="vit_nano_patch2_32", labels=0.25, seed=5, device="cpu")
    setup = prepare(options, ProgressBar(quiet=True), resumed=None)
    ours = keep_share(open_data(str(arrays), seed=5), 0.25, seed=5)["train"]
    assert find_root(setup.data["train"])[1].tolist() == find_root(ours)[1].tolist()
    assert len(ours) == 24


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A backbone without classes, as pretraining leaves it; it has learned nothing."""
    torch.manual_seed(7)
    model = vt.create_model("vit_nano_patch2_32", num_classes=0, image_size=(8, 8), in_channels=1)
    return save(model, tmp_path_factory.mktemp("models") / "backbone")


@pytest.fixture(scope="module")
def done(network, arrays, tmp_path_factory):
    """All protocols on quadrants, and what was said."""
    out = tmp_path_factory.mktemp("protocols") / "out"
    found = vt.evaluate(
        network, data=arrays, protocol=["scratch", "knn", "linear", "finetune"], labels=[1, 0.25], epochs=1, out=out, workers=0
    )
    return out, found


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_cell_for_every_protocol_and_share(done):
    out, found = done
    rows = read_table(out / "protocol.csv")
    names = ["finetune", "linear", "knn", "scratch", "pixels"]
    assert [(row["protocol"], row["labels"]) for row in rows] == [(name, share) for name in names for share in ("0.25", "1.0")]
    assert [row["pictures"] for row in rows] == ["24", "96"] * 5
    assert found == {
        f"{row['protocol']} {float(row['labels']):g}": pytest.approx(float(row["accuracy"]), abs=1e-6) for row in rows
    }
    assert found["pixels 1"] > 0.9  # a bright quadrant is near another of its kind
    for row in rows:
        answers = read_table(out / row["predictions"])
        assert len(answers) == 18
        assert np.mean([line["truth"] == line["predicted"] for line in answers]) == pytest.approx(
            float(row["accuracy"]), abs=1e-6
        )
        assert float(row["low"]) <= float(row["accuracy"]) <= float(row["high"])


def test_training_cells_are_runs(done, network):
    out, _ = done
    for name in ("finetune-0.25-seed0", "finetune-1-seed0", "scratch-0.25-seed0", "scratch-1-seed0"):
        assert (out / name / "best" / "model.safetensors").is_file()
    text = (out / "finetune-0.25-seed0" / "config.yaml").read_text()
    assert "labels: 0.25" in text
    assert "layer_decay: 0.75" in text
    assert str(network) in text
    assert "layer_decay: 1.0" in (out / "scratch-0.25-seed0" / "config.yaml").read_text()
    new, old = vt.load(out / "untrained-seed0"), vt.load(network)
    assert new.config == old.config
    first = next(name for name, weight in old.named_parameters() if weight.ndim > 1)
    assert not torch.equal(new.get_parameter(first), old.get_parameter(first))


def test_figure_and_report(done):
    out, found = done
    assert (out / "protocol.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    for words in ("fine-tuning", "25 % (24)", "penalty"):
        assert words in page
    assert f"{100 * found['linear 0.25']:.2f}" in page


def test_a_finished_cell_is_not_measured_again(done, network, arrays, monkeypatch):
    out, found = done
    measured = []
    monkeypatch.setattr(
        protocols.Evaluation, "measure", lambda self, protocol, data, share, seed: measured.append((protocol, share, seed))
    )
    again = vt.evaluate(network, data=arrays, protocol="knn,linear,finetune,scratch", labels="0.25,1", epochs=1, out=out)
    assert measured == []
    assert again == pytest.approx(found, abs=1e-6)


def test_what_is_missing_is_measured(done, network, arrays, tmp_path, monkeypatch):
    import shutil

    out, found = done
    copy = shutil.copytree(out, tmp_path / "copy")
    rows = read_table(copy / "protocol.csv")
    kept = [row for row in rows if (row["protocol"], row["labels"]) != ("linear", "1.0")]
    with (copy / "protocol.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(kept)
    monkeypatch.setattr(protocols, "ask_neighbors", None)  # may not be asked
    monkeypatch.setattr(protocols, "run_training", None)
    again = vt.evaluate(network, data=arrays, protocol="knn,linear,finetune", labels="0.25,1", epochs=1, out=copy)
    assert again["linear 1"] == pytest.approx(found["linear 1"])
    assert len(read_table(copy / "protocol.csv")) == len(rows)


def test_a_stop_keeps_what_is_done(network, arrays, tmp_path, command, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(protocols, "read_linear", stop)
        answer = command(
            "eval", network, "--data", arrays, "--protocol", "knn,linear", "--labels", "1", "--out", tmp_path / "out"
        )
    assert answer.code == 130
    assert "goes on" in answer.err
    assert [row["protocol"] for row in read_table(tmp_path / "out" / "protocol.csv")] == ["knn", "pixels"]
    again = command(
        "eval", network, "--data", arrays, "--protocol", "knn,linear", "--labels", "1", "--out", tmp_path / "out", "--json"
    )
    assert again.code == 0
    found = json.loads(again.out)
    assert found["split"] == "test"
    assert [cell["protocol"] for cell in found["cells"]] == ["linear", "knn", "pixels"]


def test_seeds_choose_other_images(network, arrays, tmp_path, command):
    answer = command(
        "eval", network, "--data", arrays, "--protocol", "knn", "--labels", "0.05,0.5", "--seeds", 3, "--out", tmp_path / "out"
    )
    assert answer.code == 0
    assert [row["seed"] for row in read_table(tmp_path / "out" / "protocol.csv")] == ["0", "1", "2"] * 4
    assert "nearest neighbors by pixels" in answer.out
    assert " to " in answer.out.splitlines()[-1]  # the lowest and the highest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--protocol", "lineer"), 'unknown protocol "lineer"'),
        (("--protocol", "lineer"), 'did you mean "linear"'),
        (("--protocol", ","), "--protocol is empty"),
        (("--protocol", "knn", "--labels", "0"), "above 0 and at most 1, got 0"),
        (("--protocol", "knn", "--labels", "0.1,2"), "above 0 and at most 1, got 2"),
        (("--protocol", "knn", "--labels", "ten"), "takes shares such as"),
        (("--protocol", "knn", "--labels", "0.01"), "less than one for each of 3 classes; the least is 0.0313"),
        (("--protocol", "knn", "--seeds", "0"), "--seeds must be at least 1, got 0"),
        (("--protocol", "knn", "--epochs", "3"), "none of the protocols trains"),
        (("--protocol", "knn", "--split", "val"), "--split val says nothing to --protocol"),
        (("--protocol", "knn", "--num-beams", "2"), "--num-beams is an option of --task translate and caption only"),
        (("--labels", "0.1"), "--labels 0.1 needs --protocol"),
        (("--seeds", "2"), "--seeds 2 needs --protocol"),
    ],
)
def test_wrong_words_are_answered_in_one_line(network, arrays, tmp_path, command, words, said):
    answer = command("eval", network, "--data", arrays, "--out", tmp_path / "out", *words)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_wrong_data_and_models(network, arrays, tmp_path, command):
    def refused(*words):
        answer = command("eval", *words)
        assert answer.code == 2
        assert answer.err.count("\n") == 1
        return answer.err

    assert "give --data" in refused(network, "--protocol", "knn")
    assert "give --out" in refused(network, "--protocol", "knn", "--data", arrays)
    plain = tmp_path / "plain"
    plain.mkdir()
    for number in range(4):
        labelled_images(4).read(number).save(plain / f"{number}.png")
    assert "no labels" in refused(network, "--protocol", "knn", "--data", plain, "--out", tmp_path / "out")
    with np.load(arrays) as parts:
        np.savez(tmp_path / "undivided.npz", x_train=parts["x_train"], y_train=parts["y_train"])
    words = ("--protocol", "knn", "--data", tmp_path / "undivided.npz", "--out", tmp_path / "out")
    assert "no test split of its own" in refused(network, *words, "--seeds", 2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert "other files" in refused(network, "--protocol", "knn", "--data", arrays, "--out", tmp_path / "full")
    pixels = save(vt.create_model("igpt_nano", image_size=(4, 4)), tmp_path / "pixels")
    assert "--protocol is an option of" in refused(pixels, "--protocol", "knn", "--data", arrays, "--out", tmp_path / "out")


def test_another_model_in_the_same_folder_is_refused(done, arrays, tmp_path, command):
    torch.manual_seed(1)
    other = save(vt.create_model("vit_nano_patch2_32", num_classes=0, image_size=(8, 8), in_channels=1), tmp_path / "other")
    answer = command("eval", other, "--data", arrays, "--protocol", "knn", "--epochs", 1, "--out", done[0])
    assert answer.code == 2
    answer = command("eval", other, "--data", arrays, "--protocol", "finetune", "--epochs", 1, "--out", done[0])
    assert answer.code == 2
    assert "is about other weights" in answer.err


def test_the_table_has_means_over_seeds():
    def cell(protocol, labels, seed, accuracy):
        return Cell(protocol, labels, seed, round(100 * labels), accuracy, accuracy, accuracy, "", "")

    cells = [cell("knn", 0.1, 0, 0.5), cell("knn", 0.1, 1, 0.7), cell("pixels", 0.1, 0, 0.3), cell("knn", 1.0, 0, 0.9)]
    head, rows = mean_table(cells)
    assert head == ["labels", "10 % (10)", "100 % (100)"]
    assert rows == [["nearest neighbors", "60.00 (50.00 to 70.00)", "90.00"], ["nearest neighbors by pixels", "30.00", "–"]]


def test_the_headline_is_about_the_run_and_names_what_to_compare_with():
    def cell(protocol, labels, accuracy):
        return Cell(protocol, labels, 0, 10, accuracy, accuracy, accuracy, "", "")

    cells = [
        cell("knn", 0.1, 0.4),
        cell("linear", 0.1, 0.5),
        cell("pixels", 0.1, 0.9),
        cell("knn", 1.0, 0.95),
        cell("scratch", 0.1, 0.3),
    ]
    headline, against = protocols.describe_best(cells)
    assert headline == "linear 50.00 % with 10 % of the labels"
    assert against == "to compare with: from scratch 30.00 %, nearest neighbors by pixels 90.00 %"
    assert protocols.describe_best([cell("scratch", 0.5, 0.25)]) == ("from scratch 25.00 % with 50 % of the labels", "")
