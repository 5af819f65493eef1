"""Neither the application nor what the browser loads knows a task by its name: that stands in the task's own folder."""

import ast
import re
from pathlib import Path

import vitrail
from vitrail.tasks import registry

SOURCE = Path(vitrail.__file__).parent
LOADED = (".js", ".html", ".css")
ANY = "|".join(sorted(registry.TASKS, key=len, reverse=True))
# A string that is the name alone, an address below it, an option of the command line that names it.
NAMED = re.compile(rf"""["'`/]({ANY})["'`/?#]|--(?:task|method) ({ANY})\b""")


def files(*endings: str) -> list[Path]:
    found = [path for path in SOURCE.rglob("*") if path.suffix in endings]
    return [path for path in found if path.relative_to(SOURCE).parts[0] != "tasks"]


def test_no_file_of_a_page_outside_of_a_task_names_one():
    pages = files(*LOADED)
    assert len([path for path in pages if path.suffix == ".js"]) > 30
    named = {str(path.relative_to(SOURCE)): NAMED.findall(path.read_text(encoding="utf-8")) for path in pages}
    assert {path: words for path, words in named.items() if words} == {}


def test_what_a_page_would_look_like_that_names_one():
    for text in (
        'task === "detect"',
        "get('/api/mae/draw')",
        "post(`/restore`)",
        "Train one with: vitrail train --task segment --data X",
    ):
        assert NAMED.search(text), text
    for text in (
        "Type a sentence in the language the model reads",
        "context.restore()",
        "<figcaption>",
        'class="classify-bar"',
    ):
        assert not NAMED.search(text), text


def test_no_module_of_the_studio_names_one():
    for path in (*(SOURCE / "serve").rglob("*.py"), *(SOURCE / "deploy" / "studio").rglob("*.py")):
        strings = [
            node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)
        ]
        assert not {text for text in strings if isinstance(text, str) and (text in registry.TASKS or NAMED.search(text))}, path


def test_a_tasks_page_loads_from_its_own_folder_or_what_all_share():
    for task in registry.TASKS:
        for path in (SOURCE / "tasks" / task).rglob("*.js"):
            for source in re.findall(r'from "([^"]+)"', path.read_text(encoding="utf-8")):
                here = SOURCE / "deploy" / "studio" / "web" / source.removeprefix("/static/")
                assert (path.parent / source).is_file() if source.startswith("./") else here.is_file(), (path, source)
