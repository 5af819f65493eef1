"""What `vitrail eval` opens, how, and which split of it is scored; the scores themselves are tested with each task."""

from types import SimpleNamespace

import pytest

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run import evaluate
from vitrail.tasks import registry
from vitrail.tasks.classify.options import Options
from vitrail.tasks.stages import Opened
from vitrail.tasks.task import Task
from vitrail.tasks.verb_options import ReadingEvalOptions


def data_of(*splits):
    return SimpleNamespace(name="cats", splits=dict.fromkeys(splits, ()))


class Noting(Task):
    """A task that says how it was asked to open data, and matches it."""

    def open(self, options, opening):
        self.options, self.opening = options, opening
        return Opened(data=data_of("train", "val"))

    def match(self, data, model, options):
        return SimpleNamespace(name="matched", splits=data.splits)

    def stored(self, model):
        return Options(data="", batch_size=5)


@pytest.fixture
def noting(monkeypatch):
    task = Noting()
    monkeypatch.setattr(registry, "find", lambda name: task)
    return task


def open_setup(run, trained, **given):
    (run / "best").mkdir(parents=True)
    (run / "best" / "config.json").write_text("{}")
    (run / "bad_files.csv").write_text("picture,split,reason,met\na.png,train,an empty file,before\n")
    model = vt.create_model("vit_nano_patch4_32", image_size=(8, 8))
    return evaluate.open_setup(str(run / "best"), model, trained, ReadingEvalOptions(**given), ProgressBar(quiet=True))


def test_a_runs_own_data_is_opened_as_it_was_then(noting, tmp_path):
    trained = Options(data="digits", seed=7, val_split=0.3, workers=2, batch_size=9)
    task, setup, split = open_setup(tmp_path, trained, batch_size=3)
    assert task is noting
    opening = noting.opening
    assert (opening.source, opening.seed, opening.split, opening.image_size) == ("digits", 7, True, (8, 8))
    assert [bad.name for bad in opening.known_bad] == ["a.png"], "nothing is tried again"
    assert (noting.options.val_split, noting.options.workers, noting.options.batch_size) == (0.3, 2, 3)
    assert (setup.name, setup.options, setup.stored) == ("matched", noting.options, trained)
    assert split == "val", "as in training, where there is no test"


def test_other_data_is_opened_as_it_is(noting, tmp_path):
    _, setup, split = open_setup(tmp_path, Options(data="digits", seed=7), data="cats", split="train")
    opening = noting.opening
    assert (opening.source, opening.seed, opening.split, opening.known_bad) == ("cats", 0, False, None)
    assert (setup.name, split) == ("matched", "train")


def test_a_bare_model_needs_data_and_has_options_by_its_task(noting, tmp_path):
    _, setup, _ = open_setup(tmp_path / "one", None, data="cats", split="val")
    assert setup.stored == Options(data="", batch_size=5)
    with pytest.raises(VitrailError, match="give --data"):
        open_setup(tmp_path / "two", None)


@pytest.mark.parametrize(
    "splits, wanted, own, scored",
    [
        (("train", "val", "test"), "test", True, "test"),
        (("train", "val", "test"), "val", False, "val"),
        (("train", "val"), "test", True, "val"),
        (("train",), "test", False, "train"),
    ],
)
def test_the_split_that_is_scored(splits, wanted, own, scored):
    assert evaluate.choose_split(data_of(*splits), wanted, own=own) == scored


def test_a_split_that_other_data_does_not_have_is_refused():
    with pytest.raises(VitrailError, match='cats has no split "test": it has train, val'):
        evaluate.choose_split(data_of("train", "val"), "test", own=False)


def test_options_are_checked_before_anything_is_read():
    with pytest.raises(VitrailError, match="--batch-size must be at least 1, got 0"):
        evaluate.run_evaluation("nowhere", ReadingEvalOptions(batch_size=0))
