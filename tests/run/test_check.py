"""`vitrail check`: every fault planted in a folder is found, what is clean is called clean, and --fix gives data that is."""

import csv
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitrail.cli.check import check as command
from vitrail.data.dataset import SPLITS
from vitrail.data.findings import Twice, find_layout_faults, find_leaks
from vitrail.data.opening import find_data, open_data
from vitrail.errors import VitrailError
from vitrail.models.pretrained import list_packaged
from vitrail.run.check import check, notes_on_search
from vitrail.run.check_text import describe
from vitrail.tasks.classify.options import recipe_for

SIZE = 48


def draw(seed: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (7, 7, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((SIZE, SIZE), Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Clean: two classes, 12 + 4 images each."""
    root, seed = tmp_path / "data", 0
    for split, count in (("train", 12), ("test", 4)):
        for label in ("cat", "dog"):
            (root / split / label).mkdir(parents=True)
            for number in range(count):
                draw(seed := seed + 1).save(root / split / label / f"{number}.png")
    return root


def kinds(root: Path) -> dict[str, str]:
    return {finding.kind: finding.level for finding in check(root, workers=0).findings}


def test_a_clean_folder_is_called_clean(folder):
    found = check(folder, workers=0)
    assert (found.findings, found.serious, found.bad, found.duplicates) == ((), False, (), ())
    assert found.splits == {"train": 24, "test": 8}
    assert list(found.splits) == [name for name in SPLITS if name in found.splits], "train first, however the folder is sorted"
    assert found.classes == {"cat": {"train": 12, "test": 4}, "dog": {"train": 12, "test": 4}}
    assert found.sizes == {"smallest": (SIZE, SIZE), "median": (SIZE, SIZE), "largest": (SIZE, SIZE)}
    assert (found.modes, found.formats) == ({"RGB": 32}, {"PNG": 32})
    lines = [line for _, line in describe(found)]
    assert lines[:2] == ["data: 2 classes, 24 train, 8 test", "nothing wrong found"]
    assert lines[-1] == found.suggestion.command


def leak(root: Path) -> None:
    shutil.copy(root / "train/cat/0.png", root / "test/cat/new.png")


def cropped_leak(root: Path) -> None:
    Image.open(root / "train/cat/0.png").crop((6, 3, 44, 40)).save(root / "test/cat/new.png")


def unreadable(root: Path) -> None:
    path = root / "train/dog/3.png"
    path.write_bytes(path.read_bytes()[:300])


def conflict(root: Path) -> None:
    shutil.copy(root / "train/cat/0.png", root / "train/dog/new.png")


def copies(root: Path) -> None:
    shutil.copy(root / "train/cat/0.png", root / "train/cat/new.png")


def empty_class(root: Path) -> None:
    (root / "train/bird").mkdir()


def missing_class(root: Path) -> None:
    shutil.rmtree(root / "test/dog")


def imbalance(root: Path) -> None:
    for number in range(3, 12):
        (root / f"train/dog/{number}.png").unlink()


def lie(root: Path) -> None:
    draw(999).save(root / "train/cat/new.jpg", format="PNG")


def nested(root: Path) -> None:
    for name in ("tabby", "siamese"):
        (root / "train/cat" / name).mkdir()
    for number, path in enumerate(sorted((root / "train/cat").glob("*.png"))):
        path.rename(path.parent / ("tabby" if number % 2 else "siamese") / path.name)


def one_class(root: Path) -> None:
    shutil.rmtree(root / "train/dog")
    shutil.rmtree(root / "test/dog")


@pytest.mark.parametrize(
    ("plant", "kind", "level"),
    [
        (leak, "leak", "serious"), (cropped_leak, "leak", "serious"), (unreadable, "unreadable", "serious"),
        (conflict, "label conflict", "serious"), (copies, "duplicates", "warning"), (empty_class, "empty class", "serious"),
        (missing_class, "missing class", "warning"), (imbalance, "imbalance", "warning"), (lie, "extension", "warning"),
        (nested, "layout", "warning"), (one_class, "classes", "serious"),
    ],
)  # fmt: skip
def test_each_fault_is_found_and_nothing_else(folder: Path, plant: Callable[[Path], None], kind: str, level: str):
    plant(folder)
    assert kinds(folder) == {kind: level}


def test_a_root_of_parts_is_not_a_root_of_classes(tmp_path):
    for part in ("images", "trimaps", "other"):
        (tmp_path / part).mkdir()
        for number in range(3):
            draw(100 * len(part) + number).save(tmp_path / part / f"image {part} {number}.png")
    found = check(tmp_path, workers=0)
    assert [(finding.kind, finding.level) for finding in found.findings] == [("layout", "serious")]
    assert "images, trimaps" in found.findings[0].text
    assert "for masks use --task segment, for classes give the folder that has a subfolder for each" in found.findings[0].text
    assert found.suggestion is None


def test_the_folder_of_classes_is_named_where_there_is_one(tmp_path):
    for part in ("images", "trimaps", "by breed/pug", "by breed/beagle"):
        (tmp_path / part).mkdir(parents=True)
        draw(len(part)).save(tmp_path / part / f"{part.replace('/', ' ')}.png")
    [fault] = find_layout_faults(find_data(str(tmp_path)), tmp_path)
    assert fault.text.endswith(f"for classes give --data {shlex.quote(str(tmp_path / 'by breed'))}")
    (tmp_path / "alone").mkdir()
    shutil.move(tmp_path / "by breed", tmp_path / "alone")
    with pytest.raises(VitrailError, match=r"if its folders are the classes, give --data .*by breed"):
        open_data(str(tmp_path / "alone"))


def test_train_and_val_must_stand_at_the_top(folder, tmp_path):
    (tmp_path / "above" / "photos-2024").mkdir(parents=True)
    shutil.move(folder / "train", tmp_path / "above" / "train")
    shutil.move(folder / "test", tmp_path / "above" / "photos-2024" / "test")
    (tmp_path / "above" / "train").rename(tmp_path / "above" / "photos-2024" / "train")
    assert ("layout", "warning") in kinds(tmp_path / "above").items()


def test_leaks_are_shouted_first(folder, capsys):
    imbalance(folder)
    leak(folder)
    assert command(str(folder), workers=0) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("!! LEAK: 1 image of test is in train too (1 exact)")
    assert "new.png" in lines[2]
    assert "\x1b" not in "".join(lines), "plain where there is no terminal"


def test_a_leak_counts_images_not_pairs():
    twice = [
        Twice(first=name, second="x", splits=("train", "test"), kind="near", similarity=1.0, same_label=True) for name in "abc"
    ]
    assert find_leaks(twice)[0].text.startswith("1 image of test is in train too (3 near)")


def test_fix_writes_a_list_that_is_clean(folder, tmp_path):
    for plant in (leak, unreadable, conflict):
        plant(folder)
    shutil.copy(folder / "train/dog/5.png", folder / "train/dog/copy.png")
    Image.open(folder / "train/dog/7.png").crop((2, 6, 40, 44)).save(folder / "test/dog/cropped.png")
    clean = tmp_path / "lists" / "clean.csv"
    found = check(folder, workers=0, fix=clean)
    names = {Path(name).relative_to(folder).as_posix(): reason for name, reason in found.cleaned.left_out}
    # The file of cat/0.png has two labels: all three copies go, the one in test too, for nobody knows what it shows.
    assert set(names) == {"train/cat/0.png", "train/dog/new.png", "test/cat/new.png", "train/dog/3.png", "train/dog/copy.png",
                          "train/dog/7.png"}  # fmt: skip
    assert names["train/dog/7.png"].startswith("crop of") or names["train/dog/7.png"].startswith("near of")
    assert kinds(clean) == {}
    data = open_data(str(clean), divide=False)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 21, "test": 9}
    assert f"--data {shlex.quote(str(clean))} " in found.suggestion.command


def test_a_leak_costs_train_an_image_not_test(folder, tmp_path):
    leak(folder)
    check(folder, workers=0, fix=tmp_path / "clean.csv")
    rows = list(csv.DictReader((tmp_path / "clean.csv").open()))
    assert sum(row["split"] == "test" for row in rows) == 9
    assert not [row for row in rows if row["path"].endswith("train/cat/0.png")]


@pytest.mark.parametrize(
    ("source", "name", "rule"), [("digits", "c.csv", "not made of image files"), (None, "c.txt", "must end in .csv")]
)
def test_fix_refuses_in_one_line(folder, tmp_path, source, name, rule):
    with pytest.raises(VitrailError, match=rule):
        check(source or folder, workers=0, fix=tmp_path / name)
    assert not (tmp_path / name).exists()


def test_fix_does_not_write_a_list_that_cannot_be_trained_on(folder, tmp_path):
    for path in (folder / "train/dog").iterdir():
        path.write_bytes(b"")
    with pytest.raises(VitrailError, match="no training image of the class 'dog'"):
        check(folder, workers=0, fix=tmp_path / "clean.csv")
    assert not (tmp_path / "clean.csv").exists()


def test_json_is_one_object_and_out_holds_the_same(folder, tmp_path, capsys):
    unreadable(folder)
    assert command(str(folder), workers=0, json=True, out=str(tmp_path / "out")) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "check.json").read_text())
    assert printed["serious"] is True
    assert [file["name"] for file in printed["bad"]] == [str(folder / "train/dog/3.png")]
    rows = list(csv.DictReader((tmp_path / "out" / "bad_files.csv").open()))
    assert [row["picture"] for row in rows] == [str(folder / "train/dog/3.png")]
    sheet = Image.open(tmp_path / "out" / "contact_sheet.png")
    assert sheet.width > 800
    assert np.asarray(sheet.convert("L")).std() > 20


def test_the_contact_sheet_shows_a_pair_below_the_classes(folder, tmp_path):
    check(folder, workers=0, out=tmp_path / "one")
    leak(folder)
    check(folder, workers=0, out=tmp_path / "two")
    heights = [Image.open(tmp_path / name / "contact_sheet.png").height for name in ("one", "two")]
    assert heights[1] > heights[0] + 96


def test_several_labels_per_image(folder, tmp_path):
    rows = [
        f"train/cat/{n}.png,{labels}"
        for n, labels in enumerate(["a|b", "a", "b", "", "a|b", "b", "a", "b", "a", "b", "a|b", "b"])
    ]
    (folder / "list.csv").write_text("\n".join(["path,labels", *rows]))
    found = check(folder / "list.csv", workers=0)
    assert found.multi_label
    assert found.classes == {"a": {"train": 6}, "b": {"train": 8}}
    assert found.findings == ()
    shutil.copy(folder / "train/cat/0.png", folder / "train/cat/1.png")
    assert [(f.kind, f.level) for f in check(folder / "list.csv", workers=0).findings] == [("label conflict", "serious")]


def test_the_suggestion_is_what_auto_would_choose(folder):
    newest, plan = list_packaged()[0].title, check(folder, workers=0).suggestion
    assert (plan.model, plan.image_size, plan.batch) == (newest, (64, 64), 2)
    assert (plan.recipe, plan.epochs) == ("finetune", recipe_for("finetune", size=(64, 64), channels=3, stem=True)["epochs"])
    assert f" --weights {newest} --image-size 64 " in plan.command
    assert "--model" not in plan.command
    assert 0 < plan.step_seconds < plan.total_seconds
    assert plan.total_seconds == pytest.approx(plan.epochs * plan.epoch_seconds)
    imbalance(folder)
    assert check(folder, workers=0).suggestion.command.endswith("--balance sampling")


def test_the_suggestion_for_small_images_begins_without_weights(folder):
    for path in folder.rglob("*.png"):
        Image.open(path).resize((40, 40)).save(path)
    plan = check(folder, workers=0).suggestion
    assert (plan.model, plan.image_size, plan.batch, plan.recipe, plan.epochs) == ("vit_nano_conv", (40, 40), 2, "tiny", 60)
    assert " --model vit_nano_conv --image-size 40 " in plan.command


@pytest.mark.parametrize(
    ("options", "rule"), [({"workers": -1}, "--workers"), ({"seed": -1}, "--seed"), ({"data": "nowhere"}, "no data at")]
)
def test_wrong_use_is_one_line(folder, options, rule):
    with pytest.raises(VitrailError, match=rule):
        check(**{"data": folder, **options})


def test_what_is_not_looked_for_is_said():
    assert notes_on_search(20_000) == ()
    assert notes_on_search(20_001) == (
        "over 20,000 images only whole ones are compared: crops of another image are not looked for",
    )
    assert notes_on_search(120_001)[0].startswith("over 120,000 images only files with the same bytes are found")
