"""Checkpoints that cannot be lost: whatever fails while one is written, a whole one can be read."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from vitrail.errors import VitrailError
from vitrail.files import sync_folder, write_whole
from vitrail.learn.training.checkpoint import NUMBERS, REPLACED, SUMS, TENSORS, WRITING, find_checkpoint, find_fault
from vitrail.learn.training.state import Progress, first_not_finite, latest_state, load_state, read_progress, save_state

FILES = (TENSORS, NUMBERS, SUMS)


def learner(value: float = 0.0, kind=torch.optim.AdamW, **options) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and an optimizer after one step, all weights then set to `value`."""
    model = nn.Linear(5, 3)
    optimizer = kind(model.parameters(), lr=0.1, **options)
    model(torch.ones(2, 5)).square().sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model, optimizer


def save(folder: Path, step: int, value: float) -> None:
    save_state(folder, Progress(step=step), *learner(value))


def read(folder: Path) -> tuple[int, float]:
    """Step and weights of the checkpoint that would be gone on from, which must be of one piece."""
    checkpoint = latest_state(folder)
    assert checkpoint is not None
    model, optimizer = learner(-1.0)
    step = load_state(checkpoint, model, optimizer).progress.step
    values = {value for parameter in model.parameters() for value in parameter.flatten().tolist()}
    assert len(values) == 1
    return step, values.pop()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def two(tmp_path) -> Path:
    """A folder in which the removal of the older checkpoint did not come to pass."""
    save(tmp_path / "a", 3, 3.0)
    save(tmp_path / "b", 7, 7.0)
    (tmp_path / "a" / "step-000000003").rename(tmp_path / "b" / "step-000000003")
    return tmp_path / "b"


# ------------------------------------------------------------------------------------------------------ what is in one


@pytest.mark.parametrize(
    "kind, options",
    [
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {}),
    ],
)
def test_the_next_step_is_the_same_after_loading(kind, options, tmp_path):
    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).square().sum().backward()  # drawn from the generator that is part of the state
        optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    one = learner(0.5, kind, **options)
    save_state(tmp_path, Progress(step=1), *one)
    expected = step(*one)
    step(*one)
    other = learner(0.1, kind, **options)
    step(*other)
    load_state(latest_state(tmp_path), *other)
    assert all(a.equal(b) for a, b in zip(step(*other), expected, strict=True))


def test_loading_a_state_from_before_the_first_step_leaves_no_moments(tmp_path):
    model = nn.Linear(5, 3)
    save_state(tmp_path, Progress(), model, torch.optim.AdamW(model.parameters()))
    other = learner()
    assert other[1].state
    load_state(latest_state(tmp_path), *other)
    assert not other[1].state


def test_extra_tensors_come_back_by_name(tmp_path):
    extra = {"average/weight": torch.arange(6.0).reshape(2, 3).t(), "updates": torch.tensor(7)}
    save_state(tmp_path, Progress(step=2, factor=0.5, in_a_row=1), *learner(), extra=extra)
    progress, loaded = load_state(latest_state(tmp_path), *learner())
    assert loaded.keys() == extra.keys()
    assert all(loaded[name].equal(extra[name]) and loaded[name].dtype == extra[name].dtype for name in extra)
    assert progress == Progress(step=2, factor=0.5, in_a_row=1)


def test_numbers_of_an_earlier_version_take_defaults_and_those_of_a_later_one_are_named(tmp_path):
    (tmp_path / NUMBERS).write_text('{"step": 4, "epoch": 1}')
    assert read_progress(tmp_path) == Progress(step=4, epoch=1, factor=1.0, skipped=0)
    (tmp_path / NUMBERS).write_text('{"step": 4, "unheard": 1}')
    with pytest.raises(VitrailError, match=r'state.json: not a readable training state \(unknown key "unheard": '):
        read_progress(tmp_path)


def test_a_safetensors_file_of_something_else_is_refused(tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / TENSORS)
    (tmp_path / NUMBERS).write_text("{}")
    with pytest.raises(VitrailError, match=r'not a training state \(unknown tensor "weight"\)'):
        load_state(tmp_path, *learner())


@pytest.mark.parametrize("text", ["", "[1]", "3", '{"step"', "null"])
def test_what_is_no_table_of_numbers_is_refused(text, tmp_path):
    (tmp_path / NUMBERS).write_text(text)
    with pytest.raises(VitrailError, match="not a readable training state"):
        read_progress(tmp_path)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils")
def test_the_sums_are_those_of_sha256sum(tmp_path):
    save(tmp_path, 1, 1.0)
    checkpoint = tmp_path / "step-000000001"
    assert names(checkpoint) == sorted(FILES)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", SUMS], cwd=checkpoint, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{TENSORS}: OK\n{NUMBERS}: OK\n"


# ------------------------------------------------------------------------------------------------------ never a NaN


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["model/bias", "optimizer/exp_avg/weight", "extra/average"])
def test_what_is_not_finite_is_not_saved(bad, where, tmp_path):
    save(tmp_path, 3, 3.0)
    model, optimizer = learner(4.0)
    extra = {"average": torch.zeros(7)}
    tensor = {
        "model/bias": model.bias.data,
        "optimizer/exp_avg/weight": optimizer.state[model.weight]["exp_avg"],
        "extra/average": extra["average"],
    }[where]
    tensor.view(-1)[-1] = bad
    with pytest.raises(VitrailError) as caught:
        save_state(tmp_path, Progress(step=4), model, optimizer, extra=extra)
    assert str(caught.value) == (
        f'"{where}" is not finite at step 4: nothing is saved; the last good checkpoint (step 3) is intact'
    )
    assert names(tmp_path) == ["step-000000003"]


def test_very_large_numbers_are_finite():
    """Their sum of squares is not."""
    largest = torch.finfo(torch.float32).max
    tensors = {"a": torch.full((5,), largest), "b": torch.zeros(0), "c": torch.tensor([3])}
    assert first_not_finite(tensors) is None
    assert first_not_finite(tensors | {"d": torch.full((2,), float("nan"), dtype=torch.bfloat16)}) == "d"
    assert first_not_finite({}) is None


# ------------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("file", FILES)
def test_a_flipped_bit_or_a_lost_end_is_passed_over(file, two):
    newest = two / "step-000000007"
    whole, model_and_optimizer = (newest / file).read_bytes(), learner()

    @settings(max_examples=50)
    @given(place=st.integers(0, len(whole) - 1), bit=st.none() | st.integers(0, 7))
    def check(place: int, bit: int | None) -> None:
        content = whole[:place] if bit is None else whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
        (newest / file).write_bytes(content)
        found = find_checkpoint(two)
        assert found.checkpoint == two / "step-000000003"
        (line,) = found.faults
        assert line.startswith(str(newest))
        assert "\n" not in line
        with pytest.raises(VitrailError, match="training state"):
            load_state(newest, *model_and_optimizer)

    check()


@pytest.mark.parametrize("file", [TENSORS, NUMBERS])
def test_a_missing_file_is_passed_over(file, two):
    assert read(two) == (7, 7.0)
    (two / "step-000000007" / file).unlink()
    assert read(two) == (3, 3.0)
    (line,) = find_checkpoint(two).faults
    assert line.endswith("(No such file or directory)")
    save(two, 5, 5.0)
    assert names(two) == ["step-000000005"], "the damaged one is newer by its name only"


def test_where_all_are_damaged_the_newest_is_refused_by_name(two):
    for checkpoint in two.iterdir():
        (checkpoint / TENSORS).write_bytes(b"")
    assert find_checkpoint(two) == (two / "step-000000007", ())
    with pytest.raises(VitrailError, match=r"step-000000007.state\.safetensors: truncated"):
        read(two)


def test_no_checkpoints(tmp_path):
    assert find_checkpoint(tmp_path / "nowhere") == (None, ())
    (tmp_path / WRITING).mkdir()
    (tmp_path / "step-notes.txt").write_text("a file is no checkpoint")
    assert latest_state(tmp_path) is None


def test_a_checkpoint_of_the_first_versions_has_no_sums(two):
    for checkpoint in two.iterdir():
        (checkpoint / SUMS).unlink()
    numbers = two / "step-000000007" / NUMBERS
    numbers.write_text('{"step": 7}')
    assert read(two) == (7, 7.0)
    with (two / "step-000000007" / TENSORS).open("r+b") as file:
        file.truncate(200)
    assert read(two) == (3, 3.0)


# ------------------------------------------------------------------------------------------------------ failures


class Failing:
    """The n-th call that changes or syncs a disk fails; `calls` counts them."""

    def __init__(self, patch: pytest.MonkeyPatch, fail_at: int, error: BaseException) -> None:
        self.calls, self.fail_at, self.error, self.log = 0, fail_at, error, []
        for name in ("mkdir", "rename", "replace", "fsync", "rmdir", "unlink"):
            patch.setattr(os, name, self.wrap(name, getattr(os, name)))
        patch.setattr(Path, "open", self.wrap("open", Path.open))

    def wrap(self, name, function):
        def call(*arguments, **options):
            self.calls += 1
            self.log.append(name)
            if self.calls == self.fail_at:
                if name == "open" and "wb" in (*arguments[1:], *options.values()):  # half of a file is there
                    function(*arguments, **options).write(b"half")
                raise self.error
            return function(*arguments, **options)

        return call


class Crash(BaseException):
    """Nothing catches it."""


def all_failures(tmp_path, monkeypatch, prepare, step, error):
    """Save `step` once for every call that can fail, and yield each folder with the exception, until no call is left."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what is tested is the order of calls, and a disk is slow
    for fail_at in itertools.count(1):
        folder = tmp_path / str(fail_at)
        prepare(folder)
        caught = None
        with monkeypatch.context() as patch:
            failing = Failing(patch, fail_at, error)
            try:
                save(folder, step, 9.0)
            except (VitrailError, Crash) as exception:
                caught = exception
        if failing.calls < fail_at:
            assert {"mkdir", "rename", "fsync", "unlink", "rmdir", "open"} <= set(failing.log)
            assert fail_at > 12
            return
        yield folder, caught


def prepare_one(folder: Path) -> None:
    save(folder, 3, 3.0)


def prepare_remains(folder: Path) -> None:
    """A good checkpoint beside what killed processes left: a half-written one, a replaced one, a damaged newer one."""
    save(folder, 3, 3.0)
    for name in (WRITING, REPLACED, "step-000000004"):
        shutil.copytree(folder / "step-000000003", folder / name)
        (folder / name / TENSORS).write_bytes(b"half")


def prepare_replaced(folder: Path) -> None:
    """Killed while the same step was saved again."""
    save(folder, 3, 3.0)
    (folder / "step-000000003").rename(folder / REPLACED)


def prepare_damaged(folder: Path) -> None:
    """The good one is an older one; that of the same step as the next is damaged."""
    save(folder, 3, 3.0)
    shutil.copytree(folder / "step-000000003", folder / "step-000000004")
    (folder / "step-000000004" / TENSORS).write_bytes(b"half")


PREPARATIONS = (prepare_one, prepare_remains, prepare_replaced, prepare_damaged)


@pytest.mark.parametrize("step", [3, 4])
@pytest.mark.parametrize("prepare", PREPARATIONS)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), Crash()], ids=["full", "killed"])
def test_a_failure_at_any_call_leaves_the_old_or_the_new(error, prepare, step, tmp_path, monkeypatch):
    seen = set()
    for folder, caught in all_failures(tmp_path, monkeypatch, prepare, step, error):
        found = read(folder)
        assert found in ((3, 3.0), (step, 9.0))
        seen.add(found)
        if isinstance(caught, VitrailError):
            assert str(caught) == (
                f"{folder}: the checkpoint of step {step} cannot be written (No space left on device); "
                f"the last good checkpoint (step {found[0]}) is intact"
            )
            assert WRITING not in names(folder)
        elif caught is None:  # only remains were not to be removed
            assert found == (step, 9.0)
        save(folder, 5, 5.0)  # and the next one puts all in order
        assert read(folder) == (5, 5.0)
        assert names(folder) == ["step-000000005"]
    assert seen == {(3, 3.0), (step, 9.0)}


def test_the_same_step_again_replaces(tmp_path):
    save(tmp_path, 3, 3.0)
    save(tmp_path, 3, 9.0)
    assert read(tmp_path) == (3, 9.0)
    assert names(tmp_path) == ["step-000000003"]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_a_disk_that_takes_nothing_is_named_with_its_reason(code, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(VitrailError) as caught:
        save(tmp_path / "state", 1, 1.0)
    assert str(caught.value) == (
        f"{tmp_path / 'state'}: the checkpoint of step 1 cannot be written ({os.strerror(code)}); there is no earlier checkpoint"
    )


def test_a_disk_that_reads_back_something_else_gives_no_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 3, 3.0)
    fsync = os.fsync

    def rot(descriptor: int) -> None:
        fsync(descriptor)
        with suppress(OSError):  # a folder cannot be written to
            os.pwrite(descriptor, b"?", 20)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", rot)
        with pytest.raises(VitrailError, match=r"state\.safetensors reads back otherwise .*\(step 3\) is intact"):
            save(tmp_path, 4, 4.0)
    assert read(tmp_path) == (3, 3.0)


FULL = """
import resource, sys, torch
from pathlib import Path
from vitrail.errors import VitrailError
from vitrail.learn.training.state import Progress, save_state
model = torch.nn.Linear(100, 100)
optimizer = torch.optim.SGD(model.parameters())
save_state(Path("state"), Progress(step=1), model, optimizer)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    save_state(Path("state"), Progress(step=2), model, optimizer)
except VitrailError as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_file_that_outgrows_its_limit(environment, tmp_path):
    """The system itself refuses in the middle of a file."""
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == (
        "state: the checkpoint of step 2 cannot be written (File too large); the last good checkpoint (step 1) is intact\n"
    )
    assert names(tmp_path / "state") == ["step-000000001"]
    assert find_fault(tmp_path / "state" / "step-000000001") is None


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the name of a descriptor is asked of Linux")
def test_everything_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    """What a loss of power needs: each file, the folder that lists them, and after the rename the folder above."""
    save(tmp_path, 3, 3.0)
    events = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path).as_posix())
        fsync(descriptor)

    def note_rename(old, new) -> None:
        events.append(f"{Path(old).name} -> {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    save(tmp_path, 4, 4.0)
    files = [f"{WRITING}/{file}" for file in FILES]
    assert events == [*files, WRITING, f"{WRITING} -> step-000000004", "."]
    events.clear()
    save(tmp_path, 4, 4.0)
    replaced = f"step-000000004 -> {REPLACED}"
    assert events == [*files, WRITING, replaced, ".", f"{WRITING} -> step-000000004", "."]


def test_a_first_checkpoint_makes_its_folder_to_stay(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("vitrail.learn.training.checkpoint.sync_folder", lambda path: synced.append(path) or sync_folder(path))
    save(tmp_path / "run" / "state", 1, 1.0)
    assert synced[0] == tmp_path / "run"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_whole_file_is_the_old_one_when_writing_fails(call, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "full")

    path = tmp_path / "file"
    write_whole(path, "old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]
