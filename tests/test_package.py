"""The package as a stranger gets it: a wheel in another environment, its metadata, and the files of a public CI."""

import ast
import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from vitrail.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {  # the design, section 6; tar shards are read by our own code, so `data` needs no webdataset
    "serve": {"fastapi", "uvicorn", "python-multipart", "prometheus-client"},
    "ray": {"ray"},
    "onnx": {"onnx", "onnxscript", "onnxruntime"},
    "openvino": {"openvino"},
    "detect": {"pycocotools", "scipy"},
    "text": {"sacrebleu", "tokenizers"},
    "medical": {"nibabel", "h5py", "scipy"},
    "data": {"datasets"},
    "logs": {"tensorboardx"},
}
IMPORT_NAMES = {
    "PIL": "pillow", "yaml": "pyyaml", "multipart": "python-multipart", "prometheus_client": "prometheus-client",
    "starlette": "fastapi", "pydantic": "fastapi",  # what FastAPI is made of, and hands to its users under these names
}  # fmt: skip
LOAD = """
import json, sys
import torch
import vitrail as vt
model = vt.load(sys.argv[1])
cells = torch.arange(2 * 8 * 8, dtype=torch.float64).reshape(2, 1, 8, 8)
with torch.inference_mode():
    logits = model((0.7 * cells).sin().float())
print(json.dumps({"file": vt.__file__, "labels": model.labels, "logits": logits.tolist()}))
"""


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what a checkout holds, without a network: hatchling comes with the dev extra."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    for folder in ("src", "tests/fixtures"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "dist", copy],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        return email.message_from_string(file.read(f"vitrail-{__version__}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another environment: the wheel is installed there; what it depends on is lent by this one.

    The path stands as a plain line in a .pth file, so this environment's own .pth files, the editable install among them, are not read.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        wheel,
    ]
    subprocess.run(install, check=True, timeout=120, env={k: v for k, v in os.environ.items() if not k.startswith("PIP_")})
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def outside(environment: Path, *words: object, cwd: Path) -> str:
    """What a command of that environment prints; nothing of this checkout is on its way."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(environment / "bin" / str(words[0])), *map(str, words[1:])],
        cwd=cwd, env=variables | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_the_library_and_nothing_else(contents):
    outsiders = {name for name in contents if not name.startswith(("vitrail/", f"vitrail-{__version__}.dist-info/"))}
    assert not outsiders
    assert not {name for name in contents if "__pycache__" in name or "test" in Path(name).name.split("_")}
    source = ROOT / "src/vitrail"
    files = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    here = {f"vitrail/{path.relative_to(source).as_posix()}" for path in files}
    assert len(here) > 100
    assert here <= contents


@pytest.mark.parametrize(
    "name",
    [
        "vitrail/py.typed",
        "vitrail/report/templates/page.css",
        "vitrail/report/templates/page.html",
        "vitrail/tasks/classify/templates/gallery.html",
        "vitrail/data/builtin/digits.npz",
        "vitrail/data/builtin/digits_split.json",
        "vitrail/data/builtin/README.md",
        f"vitrail-{__version__}.dist-info/licenses/LICENSE",
        f"vitrail-{__version__}.dist-info/licenses/NOTICE",
    ],
)
def test_the_wheel_has_what_is_no_module(name, contents):
    assert name in contents


def test_metadata(metadata):
    assert metadata["Name"] == "vitrail"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    required = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    plain = {canonicalize_name(r.name): str(r.specifier) for r in required if r.marker is None}
    assert plain["torch"] == ">=2.6"
    pinned = [str(r) for r in required if any(s.operator in ("==", "===", "~=", "<", "<=") for s in r.specifier)]
    assert not pinned, "pins belong into constraints.txt"


def test_extras_are_those_of_the_design(metadata):
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == set(EXTRAS) | {"docs", "dev"}
    assert {name: names(extras[name]) for name in EXTRAS} == EXTRAS
    assert set(metadata.get_all("Provides-Extra")) == set(extras)
    assert names(extras["data"] + extras["docs"]) <= names(extras["dev"]), "tests need them"


def test_every_import_is_a_declared_dependency():
    declared = names(PROJECT["dependencies"]) | set().union(*EXTRAS.values())
    local = {*sys.stdlib_module_names, "vitrail"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                found = [node.module or ""]
            for top in {name.partition(".")[0] for name in found} - local:
                assert canonicalize_name(IMPORT_NAMES.get(top, top)) in declared, f"{path}: {top} is in no dependency or extra"


def test_every_extra_asked_for_has_what_is_asked():
    """`need("datasets", "data")`: the extra named to the user must bring the module."""
    asked = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "need":
                module, extra = (ast.literal_eval(word) for word in node.args)
                top = module.partition(".")[0]
                assert canonicalize_name(IMPORT_NAMES.get(top, top)) in EXTRAS[extra], (
                    f"{path}: [{extra}] does not bring {module}"
                )
                asked.append(module)
    assert "datasets" in asked


def test_constraints_pin_what_this_environment_has():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines == sorted(lines, key=lambda line: line.lower().partition("==")[0])
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    assert not [pin for pin in pins.values() if not re.fullmatch(r"[\d.]+(post\d+)?", pin)]
    for name in names(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]):
        (pin,) = [value for key, value in pins.items() if canonicalize_name(key) == name]
        assert importlib.metadata.version(name).partition("+")[0] == pin, name


@pytest.mark.slow
def test_it_runs_in_another_environment(elsewhere, tmp_path):
    assert outside(elsewhere, "vitrail", "--version", cwd=tmp_path).strip() == __version__
    train = ("train", "--data", "digits", "--epochs", "1", "--model", "vit_nano_conv", "--out", "first")
    assert re.search(r"test accuracy \d+\.\d\d %\n$", outside(elsewhere, "vitrail", *train, cwd=tmp_path))
    assert (tmp_path / "first" / "report.html").is_file()


@pytest.mark.slow
def test_it_loads_a_folder_of_the_first_format(elsewhere, tmp_path):
    folder = shutil.copytree(ROOT / "tests/fixtures/model_v1", tmp_path / "old")
    seen = json.loads(outside(elsewhere, "python", "-c", LOAD, folder, cwd=tmp_path))
    assert Path(seen["file"]).is_relative_to(elsewhere), "the wheel's own code, not the checkout's"
    assert len(seen["labels"]) == 10
    for row, expected in zip(seen["logits"], json.loads((folder / "expected_logits.json").read_text()), strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow  # mypy reads all of torch
def test_its_types_are_seen_by_users(elsewhere, tmp_path):
    user = tmp_path / "user.py"
    user.write_text('import vitrail as vt\nnames: list[str] = vt.list_models("vit*")\nwrong: int = vt.list_models()\n')
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--python-executable",
        elsewhere / "bin/python",
        "--cache-dir",
        tmp_path / "cache",
        user,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.count("error:") == 1, done.stdout
    assert 'user.py:3: error: Incompatible types in assignment (expression has type "list[str]"' in done.stdout


def test_the_public_ci_calls_make():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    triggers = workflow[True]  # YAML 1.1 reads the word `on` as true
    assert {"push", "pull_request"} <= set(triggers)
    tests, package = workflow["jobs"]["tests"], workflow["jobs"]["package"]
    offered = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    assert set(tests["strategy"]["matrix"]["python"]) == offered
    assert "make test" in [step.get("run") for step in tests["steps"]]
    assert {"make docs", "make wheel"} <= {step.get("run") for step in package["steps"]}
    for step in tests["steps"] + package["steps"]:
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "actions/checkout@v4"))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {step["run"].split()[1] for step in tests["steps"] + package["steps"] if step.get("run", "").startswith("make ")}
    assert called <= targets
