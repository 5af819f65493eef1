"""`vitrail eval` of any task: on the run's own data, on other data, and of a model folder by itself."""

import json
import math
import shutil


def score(vitrail, *words):
    answer = vitrail("eval", *words, "--json")
    assert (answer.code, answer.err) == (0, ""), answer.err
    return json.loads(answer.out)


def test_its_own_data_gives_its_own_score(trained, vitrail):
    found = score(vitrail, trained.path)
    assert found == {key: trained.metrics[key] for key in found}
    assert trained.metrics["split"] == found["split"]
    reported = vitrail("eval", trained.path)
    assert reported.headline == trained.answer.headline


def test_validation_is_scored_by_the_same_metrics(trained, vitrail):
    found = score(vitrail, trained.path, "--split", "val")
    assert found["split"] == "val"
    assert found.keys() - {"split"} <= trained.measured.keys()


def test_other_data_is_scored(trained, vitrail):
    """And by a model folder without its run, which has no config.yaml, alike."""
    data = trained.example.other or trained.example.data
    found = score(vitrail, trained.path, "--data", data)
    assert all(math.isfinite(value) for key, value in found.items() if key != "split")
    assert found.keys() - {"split"} <= trained.measured.keys()


def test_a_model_folder_by_itself_gives_the_score_of_its_run(trained, vitrail, tmp_path):
    shutil.copytree(trained.path / "best", tmp_path / "bare")
    data = trained.example.other or trained.example.data
    answer = vitrail("eval", tmp_path / "bare", "--data", data, "--json")
    if answer.code:  # what it is scored by stands in its run only; or its architecture is another task's
        assert "needs --" in answer.refused() or not trained.entry.architectures
    else:
        assert json.loads(answer.out) == score(vitrail, trained.path, "--data", data)


def test_data_that_is_not_there_is_refused(trained, vitrail, tmp_path):
    assert "nowhere" in vitrail("eval", trained.path, "--data", tmp_path / "nowhere").refused()
    assert "nowhere" in vitrail("eval", tmp_path / "nowhere").refused()
