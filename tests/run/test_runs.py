import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from vitrail.cli.runs import runs as command
from vitrail.errors import VitrailError
from vitrail.run.runs import (
    align,
    differing_options,
    figures_of,
    list_runs,
    options_table,
    summary_table,
)
from vitrail.run_files import count_stored_parameters, read_run

LONG_AGO = 1_600_000_000


def make_run(path: Path, *, validation: float = 0.9, finished: bool = True, scored: bool = True, **options) -> Path:
    """A run folder as training leaves it, without a model."""
    (path / "state" / "step-000000040").mkdir(parents=True)
    record = {"data": "digits", "model": "vit_nano_conv", "epochs": 8, "minutes": None, "lr": 0.002, "seed": 0} | options
    (path / "config.yaml").write_text(yaml.safe_dump(record))
    (path / "results.csv").write_text(f"epoch,train_loss,val_accuracy,seconds\n1,0.5,0.5,30\n2,0.4,{validation},90\n")
    numbers = {
        "epoch": 2,
        "step": 40,
        "elapsed": 93.0,
        "best": {"loss": 0.3, "accuracy": validation, "epoch": 2},
        "finished": finished,
    }
    (path / "state" / "step-000000040" / "state.json").write_text(json.dumps(numbers))
    if scored:
        (path / "metrics.json").write_text(
            json.dumps({"split": "test", "interval": [0.8, 0.95], "loss": 0.3, "accuracy": 0.88})
        )
    for file in path.iterdir():
        os.utime(file, (LONG_AGO, LONG_AGO))
    return path


def test_a_finished_run_is_read_from_its_files(tmp_path):
    run = read_run(make_run(tmp_path / "a"))
    assert run.state == "finished"
    assert (run.data, run.model, run.epochs, run.planned, run.best_epoch) == ("digits", "vit_nano_conv", 2, 8, 2)
    assert (run.metric, run.validation, run.test, run.interval) == ("accuracy", 0.9, 0.88, (0.8, 0.95))
    assert run.minutes == pytest.approx(1.55)
    assert run.changed == LONG_AGO


def test_states(tmp_path):
    assert read_run(make_run(tmp_path / "a", finished=False, scored=False)).state == "interrupted"
    assert read_run(make_run(tmp_path / "b", finished=True, scored=False)).state == "interrupted"  # before its test
    now = make_run(tmp_path / "c", finished=False, scored=False)
    os.utime(now / "results.csv", (time.time(), time.time()))
    assert read_run(now).state == "running?"
    os.utime(now / "results.csv", (time.time() - 400, time.time() - 400))
    assert read_run(now).state == "interrupted"


def test_a_run_that_has_just_started_and_one_without_its_state(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.yaml").write_text("data: digits\nepochs: 3\nminutes: null\n")
    (tmp_path / "new" / "machine.yaml").write_text("")
    run = read_run(tmp_path / "new")
    assert (run.state, run.epochs, run.planned, run.validation, run.minutes) == ("running?", 0, 3, None, None)
    old = make_run(tmp_path / "old")
    (old / "state" / "step-000000040" / "state.json").unlink()
    run = read_run(old)  # results.csv knows the epochs and the time
    assert (run.state, run.epochs, run.minutes, run.test) == ("finished", 2, 1.5, 0.88)


@pytest.mark.parametrize(
    "name, content",
    [
        ("config.yaml", b"data: [1\n"),
        ("config.yaml", b"- a list\n"),
        ("config.yaml", b"\xff\xfe\x00"),
        ("metrics.json", b'{"accuracy": 0.'),
        ("metrics.json", b"[1, 2]"),
        ("results.csv", b"epoch,loss\n1,many\n"),
        ("state/step-000000040/state.json", b""),
        ("best/model.safetensors", b"\xff\xff\xff\xff\x00\x00\x00\x00{}"),
    ],
)
def test_a_broken_file_makes_a_row_that_names_it(tmp_path, name, content):
    make_run(tmp_path / "whole")
    broken = make_run(tmp_path / "broken")
    (broken / name).parent.mkdir(exist_ok=True)
    (broken / name).write_bytes(content)
    found = {run.path.name: run for run in list_runs([tmp_path])}
    assert found["broken"].state == "broken"
    assert found["broken"].problem.startswith(f"{name}: ")
    assert "\n" not in found["broken"].problem
    assert found["whole"].state == "finished"


def test_other_folders_are_passed_over_and_runs_are_not_searched(tmp_path):
    make_run(tmp_path / "deep" / "er" / "a")
    make_run(tmp_path / "deep" / "er" / "a" / "inside")
    make_run(tmp_path / ".hidden" / "b")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "config.yaml").write_text("title: something else\n")
    assert [run.path for run in list_runs([tmp_path])] == [tmp_path / "deep" / "er" / "a"]
    assert len(list_runs([tmp_path / "deep" / "er" / "a", tmp_path])) == 1  # named twice, listed once


def test_sorting_is_by_validation_within_a_dataset(tmp_path):
    for name, data, score in [("a", "digits", 0.7), ("b", "digits", 0.9), ("c", "cats", 0.1), ("d", "digits", 0.8)]:
        make_run(tmp_path / name, data=data, validation=score)
    started = make_run(tmp_path / "e", scored=False)
    (started / "state" / "step-000000040" / "state.json").write_text("{}")
    assert read_run(started, figures_of).validation == 0.9  # of the best row
    (started / "results.csv").write_text("epoch\n")
    os.utime(started / "results.csv", (LONG_AGO, LONG_AGO))
    os.utime(tmp_path / "d" / "results.csv", (LONG_AGO + 9, LONG_AGO + 9))

    def names(**options):
        return "".join(run.path.name for run in list_runs([tmp_path], **options))

    assert names() == "cbdae"  # without a score last
    assert names(sort="name") == "abcde"
    assert names(sort="time")[0] == "d"
    assert names(best=1) == "cb"
    assert names(best=2, sort="name") == "bcd"
    with pytest.raises(VitrailError, match="--best must be at least 1, got 0"):
        list_runs([tmp_path], best=0)
    with pytest.raises(VitrailError, match="no such folder"):
        list_runs([tmp_path / "nowhere"])


def test_an_error_is_best_where_it_is_lowest(tmp_path):
    for name, values in {"a": (7, 9), "b": (4, 3), "c": (5, 6)}.items():
        run = make_run(tmp_path / name, task="language", scored=False)
        (run / "state" / "step-000000040" / "state.json").write_text("{}")
        lines = [f"{epoch},{value}" for epoch, value in enumerate(values, 1)]
        (run / "results.csv").write_text("\n".join(["epoch,val_perplexity", *lines, ""]))
    found = list_runs([tmp_path])
    assert [(run.path.name, run.validation, run.best_epoch) for run in found] == [("b", 3, 2), ("c", 5, 1), ("a", 7, 1)]


def test_only_options_that_differ_are_compared(tmp_path):
    make_run(tmp_path / "a", lr=0.001, image_size=[8, 8], workers=1)
    make_run(tmp_path / "b", lr=0.002, image_size=[8, 8], workers=2, cutout=0.5)  # an older version had no cutout
    make_run(tmp_path / "c", lr=0.001, image_size=[8, 16], epochs=9)
    found = list_runs([tmp_path], sort="name")
    assert differing_options(found) == ["image_size", "lr"]
    header, rows = options_table(found)
    table = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["lr"] for row in table] == ["0.001", "0.002", "0.001"]
    assert [row["image_size"] for row in table] == ["8 8", "8 8", "8 16"]
    assert options_table(found[:1]) is None


def test_the_table_in_words(tmp_path):
    make_run(tmp_path / "a", minutes=5.0)
    header, rows = summary_table(list_runs([tmp_path]))
    row = dict(zip(header, rows[0], strict=True))
    assert row == {
        "run": str(tmp_path / "a"), "data": "digits", "model": "vit_nano_conv", "size": "-", "epochs": "2", "val": "90.00 %",
        "test": "88.00 %", "interval": "80.00 %–95.00 %", "min": "1.6", "state": "finished",
    }  # fmt: skip
    assert align(["a", "bb"], [["xxx", "y"], ["", "z"]]) == ["a    bb", "xxx  y", "     z"]


def test_a_strange_name_stays_in_its_line(tmp_path):
    make_run(tmp_path / "a\nb\x1b[31m", data="[red]\udcff")
    header, rows = summary_table(list_runs([tmp_path]))
    assert all(cell.isprintable() for cell in rows[0])
    assert rows[0][header.index("run")].endswith("a\\nb\\x1b[31m")


def test_parameters_are_counted_without_loading_weights(tmp_path):
    import vitrail as vt
    from vitrail.models.catalogue import count_parameters

    model = vt.create_model("vit_nano_conv")
    vt.save(model, tmp_path / "best")
    assert count_stored_parameters(tmp_path / "best" / "model.safetensors") == count_parameters(model)


def test_the_command_prints_a_table_or_json(tmp_path, capsys, monkeypatch):
    make_run(tmp_path / "a", validation=0.8)
    make_run(tmp_path / "b", lr=0.004)
    broken = make_run(tmp_path / "c")
    (broken / "metrics.json").write_text("{")
    command(str(tmp_path))
    text = capsys.readouterr().out
    assert "Options that differ" in text
    assert "0.004" in text
    assert "metrics.json: not readable" in text
    command(str(tmp_path), json=True, sort="name")
    found = json.loads(capsys.readouterr().out)
    assert [Path(run["path"]).name for run in found["runs"]] == ["a", "b", "c"]
    assert found["runs"][0]["validation"] == 0.8
    assert found["differing"] == ["lr"]
    monkeypatch.chdir(tmp_path / "a")
    command()
    assert capsys.readouterr().out == "no runs below runs\n"


def test_a_number_that_is_none_is_no_score(tmp_path):
    run = make_run(tmp_path / "a")
    (run / "metrics.json").write_text('{"accuracy": NaN, "interval": [NaN, 1]}')
    found = read_run(run)
    assert found.test is None
    assert found.interval is None
    assert found.validation == 0.9
    assert not math.isnan(found.minutes)


def test_listing_runs_needs_no_torch():
    code = "import sys, vitrail.cli.runs, vitrail.run.runs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
