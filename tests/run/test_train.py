"""What the other processes of torchrun do, told by one process."""

from pathlib import Path

import pytest

from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run import train
from vitrail.tasks.classify.options import Options


class Reached(Exception):  # noqa: N818
    pass


class Second(World):
    """The second of two processes; `shared`: what the first one sends."""

    def __init__(self, shared):
        super().__init__(rank=1, size=2)
        object.__setattr__(self, "shared", shared)  # a world does not change

    def share(self, value):
        return self.shared.pop(0)


def test_another_process_has_the_options_that_the_first_one_wrote(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("data: digits\nlr: 0.25\nmodel: vit_nano_conv\nepochs: 3\n")
    found = []

    def prepare(options, bar, *, resumed):
        found.append((options, resumed))
        raise Reached

    monkeypatch.setattr(train, "prepare", prepare)
    with pytest.raises(Reached):
        train._train(
            Options(data="digits", lr="auto", out="run"),
            {"data", "lr"},
            Second([False, str(tmp_path)]),
            ProgressBar(quiet=True),
        )
    [(options, resumed)] = found
    assert (options.lr, options.model, options.epochs, options.out) == (0.25, "vit_nano_conv", 3, "run")
    assert resumed == Path(tmp_path), "what cannot be read is known to it too"
