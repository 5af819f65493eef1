"""The report of a restorer: sections, the slider, the table, and pages that stay small."""

import math
from html.parser import HTMLParser

import numpy as np
import pytest

from vitrail.data.degradation import describe_degradation, parse_degradation
from vitrail.report.compare import BUDGET
from vitrail.report.frame import Frame, write_page
from vitrail.tasks.restore.objective import RestoredExample
from vitrail.tasks.restore.report import ImageScore, RestorationReport, restoration_sections, show_scores

VOID = {"meta", "link", "img", "wbr"}
HOSTILE = '"><script>alert(1)</script> & مرحبا\u202e \x00'


class Balanced(HTMLParser):
    """Every element that is opened is closed again, in order; `seen` counts them."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], {}

    def handle_starttag(self, tag, attributes):
        self.seen[tag] = self.seen.get(tag, 0) + 1
        assert len({name for name, _ in attributes}) == len(attributes), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(html):
    reader = Balanced()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.seen


def noise(height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def example(name="a.png", *, height=59, width=61, channels=3, truth=True, **changes):
    images = [noise(height, width, channels, seed) for seed in range(3)]
    values = {
        "given": images[0],
        "restored": images[1],
        "truth": images[2] if truth else None,
        "psnr_given": 20.0,
        "psnr_restored": 23.5,
    }
    return RestoredExample(name=name, **(values | changes))


def report(examples, **changes):
    return RestorationReport(examples=examples, **changes)


def write(found, path, **changes):
    frame = {"title": "set5", "headline": "test PSNR 33.66 dB", "details": {"Model": "nano"}}
    write_page(path, Frame(**(frame | changes)), restoration_sections(found))


def test_the_report_has_its_sections_and_its_slider(tmp_path):
    history = [{"epoch": e, "train_loss": 0.1, "val_loss": 0.1, "val_psnr": 30.0 + e, "lr": 1e-3} for e in (1, 2, 3)]
    found = report([example(HOSTILE), example("b.png", truth=False, channels=1)], degradation="sr2")
    write(found, tmp_path / "report.html", rows=history, title=HOSTILE, commands={"Restore": "vitrail restore RUN a.png"},
          configuration={"lr": 1e-3}, numbers={"SSIM": "0.95"})  # fmt: skip
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    for name in ("images", "by-image", "training", "what-next", "options"):
        assert f'<section id="{name}"' in page
    assert "What is given is the truth made 2 times smaller, and enlarged bicubically." in page
    assert "23.50\u00a0dB, +3.50\u00a0dB" in page
    assert "customElements.define" in page
    assert page.count("sha256-") == 2
    assert read(page)["before-after"] == 2


def test_a_report_of_many_large_images_stays_small(tmp_path):
    found = report([example(height=900, width=900), *[example(height=7, width=5)] * 10])
    write(found, tmp_path / "report.html")
    assert "The first 8 of 11 images" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "report.html").stat().st_size < 2 * BUDGET * 4 / 3 + 100_000


def test_no_images_are_no_error(tmp_path):
    write(report([]), tmp_path / "report.html")
    assert "no images to restore" in (tmp_path / "report.html").read_text()


def test_the_table_begins_with_the_least_gained_and_knows_what_cannot_be_subtracted():
    rows = [ImageScore(name=n, psnr_given=g, psnr_restored=r, ssim_given=s, ssim_restored=s)
            for n, g, r, s in (("good", 20.0, 30.0, 0.9), ("exact", math.inf, math.inf, None), ("worse", 30.0, 29.0, 0.8))]  # fmt: skip
    [section] = show_scores(report([], scores=rows))
    shown = section.__html__()
    assert shown.index(">worse<") < shown.index(">good<") < shown.index(">exact<")
    assert "−1.00" in shown
    assert "∞" in shown
    assert ">SSIM<" in shown
    assert "0.8000" in shown
    assert show_scores(report([])) == []
    [section] = show_scores(report([example("only")]))
    plain = section.__html__()
    assert ">only<" in plain
    assert "SSIM" not in plain


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("/data/set5/a.png", "/data/set5/b/c.png"), ("a.png", "b/c.png")), (("one/a.png",), ("a.png",)), (("a.png", "x/b.png"), ("a.png", "x/b.png")),
     (("/images/a.png", "b.png"), ("/images/a.png", "b.png")), (("ab/x.png", "abc/x.png"), ("ab/x.png", "abc/x.png"))],
)  # fmt: skip
def test_the_folder_of_all_images_is_left_out_of_their_names(names, expected):
    found = report([], scores=[ImageScore(name=name, psnr_given=20.0, psnr_restored=30.0) for name in names])
    assert tuple(map(found.short, names)) == expected


def test_degradations_are_reported_in_words():
    described = {name: describe_degradation(parse_degradation(name)) for name in ("sr4", "noise25", "jpeg10", "real1", "real4")}
    assert described == {
        "sr4": "made 4 times smaller",
        "noise25": "with noise of σ 25 of 255",
        "jpeg10": "as JPEG of quality 10",
        "real1": "with blur, noise and JPEG of random strength",
        "real4": "with blur, noise and JPEG of random strength, made 4 times smaller",
    }
