"""What a task is tested with. `tests/tasks/<name>/example.py` has `write(folder) -> Example`; a task without one is tested on `shapes`."""

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

TASKS = Path(__file__).parents[1] / "tasks"


@dataclass(frozen=True, kw_only=True)
class Example:
    """Data, and the options of a tiny run on it: two epochs of at least two steps each."""

    data: str
    options: tuple[str, ...] = (
        "--epochs",
        "2",
        "--image-size",
        "16",
    )  # of train, beside --data; `{dvae}` is the run of that task
    inputs: tuple[str, ...] = ()  # of predict and explain: three files, or sentences
    unreadable: str | None = None  # an input that cannot be read
    other: str | None = None  # other data for eval; None: there is no other in this format
    broken: str | None = None  # the data with one file that cannot be read; None: there are no files to break
    still_auto: tuple[str, ...] = ()  # options that `auto` decides later than config.yaml is written
    constants: dict[str, int] = field(default_factory=dict)  # of the task's modules, smaller than they are: steps of an epoch
    needs: tuple[str, ...] = ()  # tasks whose runs the options name


def write_default(folder: Path) -> Example:
    """The built-in shapes, and images to predict."""
    from examples.images import write_photos

    write_photos(folder / "photos", count=3)
    (folder / "photos" / "broken.png").write_bytes(b"no image")
    photos = sorted(str(path) for path in (folder / "photos").glob("[0-9]*.png"))
    return Example(data="shapes", inputs=tuple(photos), unreadable=str(folder / "photos" / "broken.png"))


def write_example(task: str, folder: Path) -> Example:
    """The example of a task, its files in a folder that exists."""
    path = TASKS / task / "example.py"
    if not path.is_file():
        return write_default(folder)
    spec = importlib.util.spec_from_file_location(f"example_of_{task}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.write(folder)
    assert isinstance(found, Example)
    return found
