"""Help is quick, has examples that are real commands, and does not import torch."""

import json
import resource
import shlex
import subprocess
import sys

import pytest

from vitrail.cli.app import app, app_for
from vitrail.cli.chosen import find_task
from vitrail.cli.words import OPTIONS, PER_TASK, SWITCHES, Known, spell_words
from vitrail.errors import VitrailError
from vitrail.tasks import registry
from vitrail.version import __version__

NO_TORCH = (
    "import sys; from vitrail.cli.app import run; run({words}); assert 'cyclopts' in sys.modules; print('torch' in sys.modules)"
)


def python(*words, environment, cwd):
    return subprocess.run([sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_importing_the_library_does_not_import_torch(environment, tmp_path):
    code = "import sys, vitrail; dir(vitrail); print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert python("-c", code, environment=environment, cwd=tmp_path) == "False False\n"


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]], ids=" ".join)
def test_help_does_not_import_torch(words, environment, tmp_path):
    out = python("-c", NO_TORCH.format(words=words), environment=environment, cwd=tmp_path)
    assert "Examples:" in out
    assert out.endswith("False\n")


LIGHT = ("vitrail", "cyclopts", "rich", "attr", "attrs", "docstring_parser", "yaml")
MODULES = """
import json, sys
from vitrail.cli.app import run
assert run({words}) == 0
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]], ids=" ".join)
def test_help_imports_little(words, environment, tmp_path):
    """Imports are what help takes its time for."""
    modules = json.loads(python("-c", MODULES.format(words=words), environment=environment, cwd=tmp_path).splitlines()[-1])
    found = {name.split(".")[0] for name in modules} - sys.stdlib_module_names
    assert found - {"__main__", "_distutils_hack"} <= {*LIGHT, *(name for name in found if "cython" in name)}  # yaml's own
    assert len(modules) < 350
    assert len([name for name in modules if name.startswith("vitrail")]) < 80


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["train", "--help"]], ids=" ".join)
def test_help_takes_under_six_tenths_of_a_second(words, environment, tmp_path):
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python("-m", "vitrail", *words, environment=environment, cwd=tmp_path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.6


def test_version(process):
    answer = process("--version")
    assert (answer.code, answer.out.strip(), answer.err) == (0, __version__, "")


@pytest.mark.parametrize("verb", OPTIONS)
def test_every_verb_has_help_with_examples_that_parse(verb, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # with runs of every task, which decide the options of some verbs
    for task in registry.TASKS:
        for name in ("digits", "photos", "multi30k", "streets", "blood", "heart", "book"):
            (tmp_path / "runs" / task / name).mkdir(parents=True)
            (tmp_path / "runs" / task / name / "config.yaml").write_text(f"task: {task}\n")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("task: classify\ndata: digits\n")
    answer = command(verb, "--help")
    assert answer.code == 0
    assert "Examples:" in answer.out
    examples = [line.strip() for line in app[verb].help_epilogue.splitlines() if line.strip().startswith("vitrail ")]
    assert len(examples) >= 2
    for example in examples:
        words = shlex.split(example)[1:]
        assert words[0] == verb
        if "--config" not in words:  # that file does not exist here
            app_for(words).parse_args(spell_words(words), exit_on_error=False, print_error=False)


def named_options(found, verb):
    return [a for a in found[verb].assemble_argument_collection() if a.parse and a.name.startswith("--")]


def plain(argument):
    return argument.name.removeprefix("--").replace("-", "_")


def test_the_parser_of_words_knows_every_verb_option_and_switch():
    """OPTIONS and SWITCHES are written out so that help needs no introspection; here they are checked against it."""
    verbs = [name for name in app if not name.startswith("-")]
    assert sorted(verbs) == sorted(OPTIONS)
    for verb in verbs:
        if verb in PER_TASK:
            continue
        named = named_options(app, verb)
        assert {plain(a) for a in named} == set(OPTIONS[verb])
        assert {plain(a) for a in named if a.hint in (bool, bool | None)} == SWITCHES & set(OPTIONS[verb])


@pytest.mark.parametrize("task", registry.TASKS)
def test_the_parser_of_words_knows_the_options_of_a_task(task):
    verb, option = ("train", "--task") if registry.TASKS[task].verb == "train" else ("pretrain", "--method")
    words = [verb, option, task]
    known, named = Known(verb, words[1:]), named_options(app_for(words), verb)
    assert {plain(a) for a in named} == set(known.names) - ({"task"} if verb == "pretrain" else set())
    assert {plain(a) for a in named if a.hint in (bool, bool | None)} == known.switches


def test_a_sentence_with_an_equals_sign_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for task in ("language", "classify"):
        (tmp_path / task).mkdir()
        (tmp_path / task / "config.yaml").write_text(f"task: {task}\n")
    assert spell_words(["predict", "language", "E=mc"]) == ["predict", "language", "E=mc"]
    assert spell_words(["complete", "language", "E=mc", "samples=2"]) == ["complete", "language", "E=mc", "--samples=2"]
    with pytest.raises(VitrailError, match='unknown option "E"'):
        spell_words(["predict", "classify", "E=mc"])


def test_the_run_is_found_among_the_values_of_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("task: segment\n")
    for words in (
        ["--split", "val", "run"],
        ["--scales", "0.75", "1", "run"],
        ["run", "--window", "3", "3"],
        ["--json", "run"],
    ):
        assert find_task("eval", words) == "segment"
    assert find_task("eval", ["--split", "val", "owner"]) == find_task("eval", ["owner"]) == registry.DEFAULT
    assert find_task("eval", ["--json"]) is None


def test_another_name_for_predict_says_what_a_run_of_another_task_does(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for task in ("segment", "mae", "caption"):
        (tmp_path / task).mkdir()
        (tmp_path / task / "config.yaml").write_text(f"task: {task}\n")
    said = {
        ("restore", "segment"): "segment is of --task segment (label every pixel), which vitrail predict takes; "
        "vitrail restore takes --task restore",
        ("complete", "mae"): "mae is of --task mae (pretraining: draw masked patches), which vitrail eval takes; "
        "vitrail complete takes --task language or igpt",
        (
            "translate",
            "caption",
        ): "caption is of --task caption (say in words what is in an image), which vitrail caption takes; "
        "vitrail translate takes --task translate",
    }
    for (verb, run), line in said.items():
        answer = command(verb, run, "x.png", "--beams", 2)
        assert (answer.code, answer.out, answer.err) == (2, "", f"vitrail: {line}\n")
    assert find_task("translate", ["nowhere", "ab"]) == "translate"
    answer = command("predict", "mae", "x.png")
    assert answer.err.startswith(
        "vitrail: --task mae (pretraining: draw masked patches) predicts nothing; vitrail predict is for"
    )


def test_the_task_of_a_command_line_is_looked_for_once(tmp_path, monkeypatch, command):
    seen = []
    monkeypatch.setattr("vitrail.cli.words.find_task", lambda verb, words: seen.append(verb) or find_task(verb, words))
    assert command("eval", tmp_path, "--no-such-option", 1).code == 2
    assert seen == ["eval"]
