"""The README: its length, its blocks as a reader would run them, and the links and files of all documents."""

import re
import shlex
from pathlib import Path

import pytest

import vitrail as vt
from vitrail.cli.app import run

README = Path(__file__).parents[1] / "README.md"
SHORTER = {"--minutes 10": "--epochs 2"}  # what a reader waits for, and a test does not


def write_photos(folder: Path) -> None:
    """The folder that the README speaks of: two classes, here of handwritten digits."""
    digits = vt.open_data("digits")["train"]
    counts = {"daisy": 0, "tulip": 0}
    for number in range(300):
        image, label = digits[number]
        if label < 2:
            name = ("daisy", "tulip")[label]
            counts[name] += 1
            (folder / name).mkdir(parents=True, exist_ok=True)
            image.save(folder / name / f"{counts[name]}.jpg", quality=95)
    assert min(counts.values()) > 20


@pytest.mark.slow
def test_the_tour_runs(tmp_path, monkeypatch, capsys):
    """Every block of `sh` and `python`, from the folder of images on."""
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos")
    tour = README.read_text().split("## Quick start")[1]
    blocks = re.findall(r"```(sh|python)\n(.*?)```", tour, re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    names: dict[str, object] = {}
    for kind, block in blocks:
        if kind == "python":
            assert len(block.strip().splitlines()) <= 10
            exec(compile(block, "README.md", "exec"), names)  # our own file
            continue
        for line in block.strip().splitlines():
            for long, short in SHORTER.items():
                line = line.replace(long, short)
            program, *words = shlex.split(line)
            assert program == "vitrail"
            assert run(words) == 0, (line, capsys.readouterr().err)
    printed = capsys.readouterr().out
    assert re.search(r"test accuracy \d+\.\d\d %", printed)
    assert "torch.Size([2, 3, 61, 61])" in printed
    assert (tmp_path / "runs/photos/report.html").is_file()
    assert (tmp_path / "why/index.html").is_file()


def test_the_readme_is_short_and_complete():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    headings = [
        "Install",
        "Two commands",
        "Quick start: a folder of images",
        "Tasks",
        "Python in ten lines",
        "Where to go next",
    ]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == headings
    for task in (README.parent / "docs" / "tasks").glob("*.md"):
        assert f"(docs/tasks/{task.name})" in text, f"{task.stem} is not in the table of tasks"


@pytest.mark.parametrize("page", [README, *sorted((README.parent / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_links_and_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:benchmarks|docs|examples)/[\w/.-]+)`", text):
        assert (README.parent / name).exists(), name


def test_where_names_files_that_exist():
    """docs/learn/: concept, file, equation and test of each chapter."""
    root, rows = README.parent, 0
    for page in sorted((root / "docs" / "learn").glob("*.md")):
        for line in page.read_text().splitlines():
            columns = [column.strip() for column in re.split(r"(?<!\\)\|", line)]
            if len(columns) != 6 or columns[1] in ("concept", "---"):
                continue
            rows += 1
            for name in re.findall(r"`([\w/.]+/[\w/.]*|[\w]+\.py)`", columns[2]):
                assert (root / "src/vitrail" / name).exists(), name
            tests = re.findall(r"`([\w/.]+)`", columns[4])
            assert tests, f"{page.name}: {columns[1]} names no test"
            for name in tests:
                assert (root / "tests" / name).exists(), name
    assert rows > 250
