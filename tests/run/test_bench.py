"""`vitrail bench`, with a clock that is not looked at: what is reported, of what, and what is refused."""

import json
from functools import partial

import pytest
import torch

import vitrail as vt
from vitrail.data.opening import open_data
from vitrail.deploy.measuring import peak_runner
from vitrail.models.catalogue import MODELS, count_parameters
from vitrail.run import bench as benchmarking
from vitrail.run import bench_measuring
from vitrail.run.bench_subjects import short_names

TINY = ("deit_nano_patch4_32", "--batches", "2,1", "--seconds", "0.001", "--engines", "torch")


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Small matrices, no process for memory, and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench_measuring, "peak_runner", partial(peak_runner, side=32))
    monkeypatch.setattr(bench_measuring, "peak_memory", lambda folder, engine, batches, *, threads: {2: 7_000_000})


@pytest.fixture
def digits(tmp_path):
    """A model folder that knows the digits' labels, with random weights."""
    model = vt.create_model("deit_nano_patch4_32", patch=2, image_size=8, in_channels=1, num_classes=10)
    model.labels = open_data("digits").classes
    return vt.save(model, tmp_path / "digits")


def test_fields_of_the_json_and_the_files(command, tmp_path):
    answer = command("bench", *TINY, "--json", "--threads", "1")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found["threads"] == 1
    assert found["pictures"] == "shapes, resized"
    (subject,) = found["subjects"]
    assert subject["tokens"] == [65]
    assert subject["parameters"] == count_parameters(vt.create_model("deit_nano_patch4_32"))
    assert subject["score"] is None
    assert [(row["engine"], row["batch"], row["memory"]) for row in found["rows"]] == [
        ("torch", 1, None),
        ("torch", 2, 7_000_000),
    ]
    for row in found["rows"]:
        assert 0 < row["best"] <= row["p50"] <= row["p99"]
        assert row["throughput"] == pytest.approx(row["batch"] / row["p50"])
        assert row["peak_share"] == pytest.approx(
            row["batch"] * subject["flops"] / row["best"] / found["peaks"][str(row["batch"])]
        )
        assert row["calls"] >= 3
        assert row["spread"] >= 0
        assert row["difference"] == 0
    folder = tmp_path / "runs" / "bench" / "deit_nano_patch4_32"
    assert sorted(path.name for path in folder.iterdir()) == ["bench.csv", "bench.json", "bench.png"]
    assert json.loads((folder / "bench.json").read_text()) == found
    assert command("bench", *TINY).code == 0
    assert folder.with_name("deit_nano_patch4_32-2").is_dir()


def test_the_table_for_people(command):
    answer = command("bench", *TINY, "--out", "here")
    lines = answer.out.splitlines()
    assert any(line.split() == ["model", "parameters", "GFLOPs", "tokens", "images"] for line in lines)
    assert sum(line.startswith("torch ") for line in lines) == 2
    assert lines[-1].endswith("written to here")


def test_accuracy_is_reported_for_each_merging_and_drawn(command, digits):
    answer = command("bench", digits, *TINY[1:], "--data", "digits", "--merge", "0,3", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert (found["data"], found["split"], found["pictures"]) == ("digits", "test", "digits")
    expected = vt.evaluate(digits, data="digits")["accuracy"]
    assert [(one["model"], one["merge"], one["metric"]) for one in found["subjects"]] == [
        ("digits", 0, "accuracy"),
        ("digits", 3, "accuracy"),
    ]
    assert found["subjects"][0]["score"] == pytest.approx(expected)
    assert 0 <= found["subjects"][1]["score"] <= 1
    assert found["subjects"][1]["tokens"] == [17, 14, 11, 8, 5]
    assert found["subjects"][1]["flops"] < found["subjects"][0]["flops"]
    assert len(found["rows"]) == 4


def test_an_engine_that_is_not_installed_is_left_out_in_one_line(command, monkeypatch):
    monkeypatch.setattr(benchmarking, "missing", lambda name: f"{name} needs something" if name == "openvino" else None)
    answer = command("bench", *TINY[:-1], "torch,openvino", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["notes"] == ["openvino is left out: openvino needs something"]
    alone = command("bench", *TINY[:-1], "openvino")
    assert (alone.code, alone.err) == (2, "vitrail: openvino needs something\n")


def test_auto_takes_all_but_what_is_slow_to_build(monkeypatch):
    monkeypatch.setattr(benchmarking, "missing", lambda name: None)
    assert benchmarking.choose_engines("auto")[0] == ("torch", "onnxruntime", "openvino")
    assert benchmarking.choose_engines("all")[0] == ("torch", "compile", "onnxruntime", "openvino")


def test_another_library_is_a_row_and_a_ratio(command, monkeypatch):
    monkeypatch.setattr(benchmarking, "check_installed", lambda peer: None)
    monkeypatch.setattr("vitrail.deploy.bench.runners.make_peer", lambda model, peer: torch.inference_mode()(model))
    found = json.loads(command("bench", *TINY, "--against", "timm", "--merge", "0,4", "--json").out)
    assert [(row["engine"], row["merge"], list(row["ratios"])) for row in found["rows"] if row["batch"] == 1] == [
        ("torch", 0, ["timm"]),
        ("timm", 0, []),
        ("torch", 4, ["timm"]),
    ]
    best = {(row["engine"], row["merge"], row["batch"]): row["best"] for row in found["rows"]}
    merged = next(row for row in found["rows"] if (row["merge"], row["batch"]) == (4, 2))
    assert merged["ratios"]["timm"] == pytest.approx(best["timm", 0, 2] / best["torch", 4, 2])


def test_stopped_early_it_keeps_and_tells_what_was_measured(command, monkeypatch):
    real, calls = bench_measuring.interleaved, []

    def stop(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(bench_measuring, "interleaved", stop)
    answer = command("bench", *TINY, "--json", "--out", "half")
    found = json.loads(answer.out)
    assert answer.code == 130
    assert found["stopped"]
    assert [row["batch"] for row in found["rows"]] == [1]


def test_several_runs_have_the_shortest_names_that_tell_them_apart():
    words = ["runs/a/digits", "runs/b/digits/best", "runs/b/pets/", "vit_nano_conv"]
    names = list(short_names(words).values())
    assert names == ["a/digits", "b/digits", "pets", "vit_nano_conv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--batches", "0,1"), "--batches must be at least 1, got 0"),
        (("--batches", "1,x"), "--batches must be whole numbers with commas between, got 1,x"),
        (("--merge", "-1"), "--merge must be at least 0, got -1"),
        (("--engines", "onnx"), 'did you mean "onnxruntime"?'),
        (("--engines", "torch,all"), "--engines all stands alone, got torch,all"),
        (("--against", "tim"), 'did you mean "timm"?'),
        (("--seconds", "0"), "--seconds must be above 0, got 0"),
        (("--threads", "0"), "--threads must be at least 1, got 0"),
        (("--split", "val"), "--split val needs --data"),
        (("--data", "digits"), "--data scores trained models, and deit_nano_patch4_32 has random weights: give a run"),
    ],
)
def test_nonsense_is_refused_in_one_line(command, words, message):
    answer = command("bench", "deit_nano_patch4_32", *words)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("deit_nano_patch4", 'neither a run nor a model of the catalogue; did you mean "deit_nano_patch4_32"?'),
        (
            next(name for name, (kind, _) in MODELS.items() if kind == "language"),
            "bench measures models of images, got one of the kind language, which takes text",
        ),
        ("runs/nothing", "no such file or folder"),
    ],
)
def test_what_is_no_model_of_images_is_refused(command, word, message):
    answer = command("bench", word)
    assert answer.code == 2
    assert message in answer.err


def test_merging_needs_a_plain_vit(command):
    assert "--merge 4 is for plain ViTs, got a model of the kind resnet" in command("bench", "resnet20_32", "--merge", "4").err
