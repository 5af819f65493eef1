"""`vitrail predict`, `explain` and `export` of any task: what they give, or the one line that says why not."""

import json
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from vitrail.tasks import registry


@pytest.fixture
def predict(trained, vitrail, tmp_path):
    """`vitrail predict` on copies of inputs, beside which results may be written; its --out, where a task has one, is a new folder."""
    made = []
    has_out = "out" in {field.name for field in fields(registry.options_of(trained.task, "predict"))}

    def call(*inputs, words=()):
        made.append(tmp_path / f"out{len(made)}")
        return vitrail("predict", trained.path, *inputs, *words, *(("--out", made[-1]) if has_out else ()))

    call.out = made
    return call


def names(answer, predict):
    """What a command printed, and the names of the files that it wrote: one sheet for all inputs is not printed for each."""
    return answer.out + " ".join(path.name for folder in predict.out if folder.is_dir() for path in folder.iterdir())


@pytest.fixture
def inputs(trained, tmp_path):
    if trained.entry.reads_text:
        return list(trained.example.inputs)
    (tmp_path / "inputs").mkdir()
    return [shutil.copy(path, tmp_path / "inputs") for path in trained.example.inputs]


def test_it_is_predicted_or_refused(trained, predict, inputs):
    answer = predict(inputs[0])
    if not trained.has("predict"):
        answer.refused()
        return
    assert (answer.code, answer.err) == (0, ""), answer.err
    assert answer.out
    if not trained.entry.reads_text:
        assert Path(inputs[0]).name.split(".")[0] in names(answer, predict)


def test_several_inputs_as_json(trained, predict, inputs):
    if not trained.has("predict"):
        predict(*inputs, words=("--json",)).refused()
        return
    several, one = predict(*inputs, words=("--json",)), predict(inputs[0], words=("--json",))
    assert (several.code, one.code) == (0, 0), several.err
    results = json.loads(several.out)
    assert len(inputs) in (results.values() if isinstance(results, dict) else [len(results)])
    assert None not in results
    assert json.loads(one.out)


def test_a_folder_is_its_files(trained, predict, inputs):
    if trained.entry.reads_text:
        pytest.skip("its inputs are sentences")
    folder = Path(inputs[0]).parent
    if not trained.has("predict"):
        predict(folder).refused()
        return
    answer = predict(folder)
    assert (answer.code, answer.err) == (0, ""), answer.err
    assert [path for path in inputs if Path(path).name.split(".")[0] not in names(answer, predict)] == []


def test_one_that_cannot_be_read_is_a_line_and_the_rest_goes_on(trained, predict, inputs):
    broken = trained.example.unreadable
    if trained.entry.reads_text:
        pytest.skip("its inputs are sentences")
    mixed = (inputs[0], broken, *inputs[1:2])
    answer = predict(*mixed, words=("--json",))
    if not trained.has("predict"):
        answer.refused()
        return
    assert answer.code == 2
    assert answer.err.count("\n") == 1, answer.err
    assert broken in answer.err
    results = json.loads(answer.out)
    assert results.count(None) == 1
    assert len(results) < len(mixed) or results[1] is None  # one result for all that can be read, or one for each


def test_what_is_not_there_is_refused(trained, predict, tmp_path):
    if trained.entry.reads_text:
        pytest.skip("its inputs are sentences")
    answer = predict(tmp_path / "nowhere.png")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err


def test_it_is_explained_or_refused(trained, inputs, vitrail, visit, tmp_path):
    out = tmp_path / "look"
    answer = vitrail("explain", trained.path, *inputs[:1], "--out", out)
    if not trained.has("explain"):
        answer.refused()
        assert not out.exists()
        return
    assert (answer.code, answer.err) == (0, ""), answer.err
    assert answer.headline == f"page: {out / 'index.html'}"
    tab = visit((out / "index.html").as_uri())
    assert tab.locator("h1").count() == 1
    assert tab.locator("h2").count() >= 1
    assert tab.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    again = vitrail("explain", trained.path, *inputs[:1], "--out", out)
    assert str(out) in again.refused()


def test_it_is_exported_or_refused(trained, vitrail, tmp_path):
    file = tmp_path / "model.safetensors"
    answer = vitrail("export", trained.path, "--format", "safetensors", "--out", file)
    if answer.code:
        assert "export" in answer.refused()
        assert not file.exists()
    else:
        assert answer.err == ""
        assert file.stat().st_size > 1000
    assert "walnut" in vitrail("export", trained.path, "--format", "walnut").refused()
