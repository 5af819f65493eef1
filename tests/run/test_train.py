"""What the other processes of torchrun do, shown by one process."""

import re
from pathlib import Path

import pytest
import torch

import vitrail as vt
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run import train
from vitrail.tasks.classify.options import Options

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"


class Reached(Exception):  # noqa: N818
    pass


class Second(World):
    """The second of two processes; `shared`: what the first one sends."""

    def __init__(self, shared):
        super().__init__(rank=1, size=2)
        object.__setattr__(self, "shared", shared)  # a world does not change

    def share(self, value):
        return self.shared.pop(0)


def test_a_gradient_is_clipped_as_the_option_says(tmp_path):
    """Steps of gradient descent are no longer than the rate times the largest norm that is allowed; a momentum of 0.9 makes ten of one."""

    def learn(lr, clip):
        run = vt.train(
            data=RUNS / "data" / "quadrants.npz", weights=RUNS / "weights" / "classify", epochs=1, batch_size=16, optimizer="sgd",
            lr=lr, weight_decay=0.0, clip_grad=clip, workers=0, device="cpu", out=tmp_path / f"{lr}-{clip}", quiet=True,
        )  # fmt: skip
        weights = torch.cat([weight.flatten() for weight in vt.load(run.path / "last").parameters()])
        return weights, len((run.path / "metrics.jsonl").read_text().splitlines())

    before, steps = learn(1e-12, 1.0)
    clipped, free = learn(0.1, 1e-6)[0], learn(0.1, 10.0)[0]
    assert (clipped - before).norm() <= 10 * steps * 0.1 * 1e-6
    assert (free - before).norm() > 1e-2


@pytest.mark.figures
def test_the_curves_of_a_report_have_a_point_per_step(tmp_path):
    data, weights = RUNS / "data" / "quadrants.npz", RUNS / "weights" / "classify"
    run = vt.train(data=data, weights=weights, epochs=1, batch_size=4, device="cpu", out=tmp_path / "run", quiet=True)
    steps = len((run.path / "metrics.jsonl").read_text().splitlines())
    assert steps > 8
    [figure] = [part for part in (run.path / "report.html").read_text().split("<svg")[1:] if ">Loss</text>" in part]
    paths = re.findall(r'<path d="([^"]+)"[^>]*cc671d\); stroke-width: 1.8', figure)
    assert len(re.findall("[ML]", paths[0])) == steps


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
