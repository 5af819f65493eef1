import importlib.util
import sys
import types

import pytest

from vitrail.errors import VitrailError
from vitrail.learn.training.event_log import EventLog


class FakeWriter:
    made: list["FakeWriter"] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, folder, **options):
        self.folder, self.options, self.calls = folder, options, []
        self.made.append(self)

    def add_scalar(self, tag, value, step):
        self.calls.append((tag, value, step))

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


@pytest.fixture
def writers(monkeypatch):
    monkeypatch.setattr(FakeWriter, "made", [])
    module = types.ModuleType("tensorboardX")
    monkeypatch.setattr(module, "SummaryWriter", FakeWriter, raising=False)
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    return FakeWriter.made


def test_scalars_are_written_under_their_group(writers, tmp_path):
    log = EventLog(tmp_path)
    log.add("train", {"loss": 0.5, "lr": 1e-3}, step=7)
    log.flush()
    log.close()
    log.add("train", {"loss": 0.4}, step=8)  # after the end: nowhere to write, no error
    log.close()
    assert len(writers) == 1
    assert writers[0].folder == str(tmp_path)
    assert writers[0].options == {}
    assert writers[0].calls == [("train/loss", 0.5, 7), ("train/lr", 1e-3, 7), "flush", "close"]


def test_a_resumed_run_hides_the_steps_it_takes_again(writers, tmp_path):
    EventLog(tmp_path, step=40)
    assert writers[0].options == {"purge_step": 41}  # step 40 was saved and stays


def test_without_a_folder_nothing_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)  # importing it raises
    log = EventLog(None)
    log.add("train", {"loss": 0.5}, step=1)
    log.flush()
    log.close()


def test_a_missing_package_is_one_line_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(VitrailError, match=r'pip install "vitrail\[logs\]"'):
        EventLog(tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("tensorboardX") is None, reason="needs tensorboardX")
def test_real_event_files_hold_the_numbers(tmp_path):
    from tensorboardX.proto.event_pb2 import Event

    for step in (0, 2):  # the second time resumed from step 2
        log = EventLog(tmp_path / str(step), step=step)
        log.add("train", {"loss": 0.25}, step=step + 1)
        log.flush()
        log.close()
    events = []
    for path in sorted((tmp_path / "2").iterdir()):
        data = path.read_bytes()
        while data:  # a record: length (8 bytes), its check sum (4), the event, its check sum (4)
            length = int.from_bytes(data[:8], "little")
            events.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    scalars = [(v.tag, v.simple_value, e.step) for e in events if e.HasField("summary") for v in e.summary.value]
    assert scalars == [("train/loss", 0.25, 3)]
    assert [e.step for e in events if e.HasField("session_log")] == [3]
