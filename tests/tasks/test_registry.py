"""Which task a folder is of."""

import json

import pytest

from vitrail.errors import VitrailError
from vitrail.tasks import registry


def write_model(folder, architecture):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architecture": architecture}))


def test_a_run_is_what_its_config_says_and_a_bare_model_what_its_architecture_is_for(tmp_path):
    write_model(tmp_path / "run" / "best", "vit")
    write_model(tmp_path / "model", "detr")
    assert registry.task_of(tmp_path / "run" / "best") == "classify"
    assert registry.task_of(tmp_path / "model") == "detect"
    (tmp_path / "run" / "config.yaml").write_text("task: mae\n")
    for place in (tmp_path / "run", tmp_path / "run" / "best"):
        assert registry.task_of(place) == "mae"
    (tmp_path / "run" / "config.yaml").write_text("data: digits\n")  # of the first version
    assert registry.task_of(tmp_path / "run") == "classify"
    (tmp_path / "run" / "config.yaml").write_text("task: maee\n")
    with pytest.raises(VitrailError, match='unknown task "maee"'):
        registry.task_of(tmp_path / "run")


def test_what_is_no_model_is_left_to_who_loads_it(tmp_path):
    (tmp_path / "config.json").write_text("[]")
    assert registry.task_of(tmp_path) == registry.task_of(tmp_path / "nowhere") == registry.DEFAULT
    assert registry.task_by_architecture("unheard") == registry.DEFAULT


def test_no_two_tasks_score_the_same_architecture():
    found = [architecture for entry in registry.TASKS.values() for architecture in entry.architectures]
    assert len(set(found)) == len(found)
