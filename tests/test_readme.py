"""The README's five-minute tour, block by block, as a reader would run it."""

import re
import shlex
from pathlib import Path

import pytest

from vitrail.cli.app import run

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_tour_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tour = README.read_text().split("## Five minutes")[1].split("\n## ")[0]
    blocks = re.findall(r"```(sh|python)\n(.*?)```", tour, re.DOTALL)
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    names: dict[str, object] = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "README.md", "exec"), names)  # our own file
            continue
        for line in block.strip().splitlines():
            program, *words = shlex.split(line)
            assert program == "vitrail"
            assert run(words) == 0, line
    printed = capsys.readouterr().out
    assert re.search(r"test accuracy \d+\.\d\d %", printed)
    assert "torch.Size([2, 10]) torch.Size([2, 61, 192]) (6, 10) 1" in printed
    assert (tmp_path / "runs/tour/report.html").is_file()


@pytest.mark.parametrize("page", [README, *sorted((README.parent / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_links_and_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:benchmarks|docs|examples)/[\w/.-]+)`", text):
        assert (README.parent / name).exists(), name


def test_where_names_files_that_exist():
    root = README.parent
    for line in (root / "docs" / "where.md").read_text().splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 7 and "`" in columns[3]:
            for name in re.findall(r"`([\w/.]+/[\w/.]*|[\w]+\.py)`", columns[3]):
                assert (root / "src/vitrail" / name).exists(), name
            for name in re.findall(r"`([\w/.]+)`", columns[5]):
                assert (root / "tests" / name).exists(), name
