"""What every task's pipeline does alike, on a toy that doubles numbers: groups, errors, results in order, one or many."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from vitrail.deploy import pipeline
from vitrail.deploy.pipeline import Inputs, Prediction, groups
from vitrail.deploy.predicted_files import OutputFolder, Predicted
from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.tasks import registry


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    plus: int = 0
    batch: int = 3

    def check(self):
        if self.plus < 0:
            raise VitrailError(f"plus must be at least 0, got {self.plus}")


class Doubling(pipeline.Pipeline):
    """Odd and even numbers cannot stand in one batch."""

    call, single = Call, (str,)

    def batch(self, options):
        return options.batch

    def read(self, source):
        if not source.isdigit():
            raise VitrailError(f"{source}: not a number")
        return int(source)

    def prepare(self, samples):
        inputs = []
        for sample in samples:
            if not inputs or inputs[-1].samples[-1] % 2 != sample % 2:
                inputs.append(Inputs([], []))
            inputs[-1].samples.append(sample)
            inputs[-1].batch.append(sample)
        return inputs

    def forward(self, inputs, options, progress):
        self.seen.append(tuple(inputs.batch))
        return [2 * number for number in inputs.batch]

    def postprocess(self, outputs, sample, options):
        return [{"double": outputs + options.plus}]

    def describe(self, found, files, *, width):
        return f"{found.source:<{width}}  {found.result[0]['double']}"


@pytest.fixture
def double():
    made = Doubling(Model())
    made.seen = []
    return made


def test_results_come_in_order_however_they_are_batched(double):
    assert double(list("13254")) == [[{"double": 2 * number}] for number in (1, 3, 2, 5, 4)]
    assert double.seen == [(1, 3), (2,), (5,), (4,)], "three are read at a time, and split where they must be"
    assert double("7", plus=1) == [{"double": 15}]
    assert double([]) == []


def test_options_of_a_call_are_checked_before_anything_is_read(double):
    with pytest.raises(VitrailError, match="plus must be at least 0, got -1"):
        double("x", plus=-1)
    with pytest.raises(TypeError, match="minus"):
        double("1", minus=1)


def test_one_that_cannot_be_read_does_not_stop_the_others(double):
    found = list(double.predict(["1", "x", "3", "y"], double.choose()))
    assert [str(one) if isinstance(one, VitrailError) else one.result[0]["double"] for one in found] == [
        2, "x: not a number", 6, "y: not a number",
    ]  # fmt: skip
    assert double.seen == [(1, 3)], "a group of errors alone is not computed"
    with pytest.raises(VitrailError, match="x: not a number"):
        double(["1", "x"])


def test_what_is_printed_of_each(double):
    found = double.predict(["1", "x"], double.choose())
    assert list(double.summarize(found, OutputFolder(None), width=3)) == [
        Predicted([{"double": 2}], "1    2"),
        Predicted(None, "x: not a number", failed=True),
    ]
    one = Prediction("1", 1, 2, [{"double": 2}])
    assert double.to_json(one, {"file": "a.png"}) == [{"double": 2, "file": "a.png"}]
    assert Doubling.join_json([1], verb="predict") == 1
    assert Doubling.join_json([1, None], verb="predict") == [1, None]


def test_what_was_read_before_its_reader_failed_is_a_group():
    def lines():
        yield from "abc"
        raise VitrailError("line 4")

    found = []
    with pytest.raises(VitrailError, match="line 4"):
        found.extend(groups(lines(), 2))
    seen = groups(lines(), 2)
    assert [next(seen), next(seen)] == [["a", "b"], ["c"]]


def test_names_in_a_folder_are_free(tmp_path):
    folder = OutputFolder.open(str(tmp_path / "new"))
    assert [folder.free_stem(Path(name)) for name in ("a.png", "b/a.jpg", "a.png")] == ["a", "a_2", "a_3"]
    (tmp_path / "new" / "a_x.nii.gz").touch()
    assert folder.free_name(Path("a.nii.gz"), ending="_x.nii.gz").name == "a_x_2.nii.gz"
    assert OutputFolder.open(None).free_name(tmp_path / "a.png", ending="_x.png") == tmp_path / "a_x.png"
    (tmp_path / "file").touch()
    with pytest.raises(VitrailError, match="no folder can be made there"):
        OutputFolder.open(str(tmp_path / "file"))


def test_every_pipeline_has_one_task_and_every_part_one_pipeline():
    names = registry.list_pipelines()
    assert len(names) == sum(len(entry.pipelines) for entry in registry.TASKS.values())
    for task, entry in registry.TASKS.items():
        if registry.has_part(task, "predict"):
            assert issubclass(registry.need_part(task, "predict").Pipeline, pipeline.Pipeline)
        else:
            assert not entry.pipelines
            assert entry.alias is None
