"""Which task a folder is of."""

import json

import pytest

from vitrail.errors import VitrailError
from vitrail.models.catalogue import create_model
from vitrail.models.folder import load, save
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


def test_a_model_names_its_task_only_where_its_architecture_would_name_another(tmp_path):
    model = create_model("vit_nano_patch4_32", num_classes=2)
    registry.name_task(model, "classify")
    assert "task" not in json.loads((save(model, tmp_path / "plain") / "config.json").read_text())
    registry.name_task(model, "igpt")
    folder = save(model, tmp_path / "named")
    assert registry.task_of(folder) == registry.task_of_model(load(folder)) == "igpt"
    registry.name_task(loaded := load(folder), "classify")  # a run of another task from these weights
    assert registry.task_of_model(loaded) == "classify"
    model.task = "maee"
    with pytest.raises(VitrailError, match='unknown task "maee"'):
        registry.task_of(save(model, tmp_path / "unknown"))
