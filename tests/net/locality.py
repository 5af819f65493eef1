"""How many files a training touches, and how large the packages are: `python tests/net/locality.py [SOURCE]`.

SOURCE is a folder with the package `vitrail` in it, by default this checkout's src. Counts of a run of one epoch on the digits:
files of which a function ran, calls from a function of one package to one of another (pairs of functions), modules imported.
"""

import ast
import contextlib
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path

SOURCE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "src").resolve()
PACKAGE = SOURCE / "vitrail"
TASKS = frozenset(
    [
        "classify",
        "translate",
        "language",
        "caption",
        "igpt",
        "mae",
        "beit",
        "dvae",
        "dino",
        "moco",
        "restore",
        "mri",
        "segment",
        "detect",
        "segment3d",
    ]
)
ARCHITECTURES = TASKS | {"detr", "segmenter", "vit"}


def room(file: str) -> str:
    parts = Path(file).relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "."


def trace() -> tuple[set[str], set[tuple[str, str]]]:
    """Files that ran, and pairs of functions across packages, in a training of one epoch."""
    files, crossings, prefix = set[str](), set[tuple[str, str]](), str(PACKAGE)

    def look(frame, event, argument):  # type: ignore[no-untyped-def]
        if event != "call" or not frame.f_code.co_filename.startswith(prefix) or frame.f_code.co_name == "<module>":
            return
        here = frame.f_code.co_filename
        files.add(here)
        caller = frame.f_back
        if (
            caller is not None
            and caller.f_code.co_filename.startswith(prefix)
            and room(caller.f_code.co_filename) != room(here)
        ):
            pair = (f"{caller.f_code.co_filename}:{caller.f_code.co_name}", f"{here}:{frame.f_code.co_name}")
            if caller.f_code.co_name != "<module>":
                crossings.add(pair)

    from vitrail.cli.app import run

    words = ["train", "--data", "digits", "--epochs", "1", "--workers", "0", "--out"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        assert run([*words, f"{folder}/first"]) == 0  # imports everything: bodies of classes are no calls of ours
        sys.setprofile(look)
        try:
            code = run([*words, f"{folder}/second"])
        finally:
            sys.setprofile(None)
    assert code == 0
    return files, crossings


def branches_on_names(path: Path) -> bool:
    """Whether a file compares something with the name of a task or of an architecture."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            words = {
                part.value
                for side in (node.left, *node.comparators)
                for part in ast.walk(side)
                if isinstance(part, ast.Constant)
            }
            if words & ARCHITECTURES:
                return True
    return False


def main() -> None:
    sys.path.insert(0, str(SOURCE))
    files, crossings = trace()
    modules = [name for name in sys.modules if name.split(".")[0] == "vitrail"]
    branching = [path for path in PACKAGE.rglob("*.py") if branches_on_names(path)]
    print(f"files run {len(files)}, calls across packages {len(crossings)}, modules imported {len(modules)}")
    print(f"files that branch on the name of a task or architecture: {len(branching)}")
    print("  " + ", ".join(f"{name} {count}" for name, count in Counter(room(str(path)) for path in branching).most_common()))
    print(f"{'package':<12} files  lines")
    for name in sorted({room(str(path)) for path in PACKAGE.rglob("*.py")}):
        paths = [path for path in PACKAGE.rglob("*.py") if room(str(path)) == name]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        print(f"{name:<12} {len(paths):>5} {lines:>6}")


if __name__ == "__main__":
    main()
