"""Where the tests of an earlier commit are now: `make moved`.

Every test function of REF that is no longer under its id (file::[Class::]function) needs a row in tests/moved.csv, `was,now,why`:

    tests/a.py::test_x,tests/b.py::test_y,renamed                      `now` exists; several stand with " + " between them
    tests/a.py::test_x,,the option is gone                             no `now`: `why` says why nothing is left to assert
    tests/jobs/test_x.py,tests/tasks/x/test_x.py,moved                 a whole file: every function by its name in the new one

A row for one function comes before the row of its file. `--write` adds rows for functions whose name is in exactly one other file.
Standard library only.
"""

import argparse
import ast
import csv
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

REF = "e20a20b"
ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/moved.csv"
COLUMNS = ["was", "now", "why"]
Row = dict[str, str]


def is_test_file(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def functions(text: str, file: str) -> Iterator[str]:
    """Ids of the test functions of a file; of one that is defined twice, once."""

    def walk(body: Iterable[ast.stmt], inside: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield f"{inside}::{node.name}"
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from walk(node.body, f"{inside}::{node.name}")
            elif isinstance(node, ast.If | ast.Try | ast.With):
                yield from walk(node.body, inside)

    yield from dict.fromkeys(walk(ast.parse(text).body, file))


def tests_at(ref: str) -> set[str]:
    """Ids of the test functions of a commit."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", ref, "tests"], capture_output=True, check=True).stdout
    found: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            if is_test_file(member.name) and (content := files.extractfile(member)) is not None:
                found |= set(functions(content.read().decode(), member.name))
    return found


def tests_here() -> set[str]:
    """Ids of the test functions of the working tree, as it is on disk."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if is_test_file(name):
            found |= set(functions(path.read_text(encoding="utf-8"), name))
    return found


def read_table(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            sys.exit(f"{path}: its first line must be {','.join(COLUMNS)}")
        return [{name: (row[name] or "").strip() for name in COLUMNS} for row in reader]


def missing(was: str, rows: dict[str, Row], here: set[str]) -> str | None:
    """What is wrong about a test that is not under its id; None if the table says where it went."""
    file, _, inner = was.partition("::")
    row = rows.get(was) or rows.get(file)
    if row is None:
        return "no row"
    if not row["now"]:
        return None if row["why"] else "a row without `now` needs a `why`"
    whole_file = row["was"] == file
    for now in row["now"].split(" + "):
        wanted = f"{now.strip()}::{inner}" if whole_file else now.strip()
        if wanted not in here:
            return f"{wanted}: no such test"
    return None


def check_table(table: list[Row], before: set[str]) -> list[str]:
    """Rows that say the same test twice, or speak of none."""
    files = {was.partition("::")[0] for was in before}
    seen: set[str] = set()
    faults: list[str] = []
    for row in table:
        if row["was"] in seen:
            faults.append(f"{row['was']}: stands twice in {TABLE}")
        elif row["was"] not in before and row["was"] not in files:
            faults.append(f"{row['was']}: stands in {TABLE}, but was never a test")
        seen.add(row["was"])
    return faults


def propose(lost: list[str], here: set[str], taken: set[str]) -> list[Row]:
    """Rows for tests whose name is found in one place only, which no other row has; whole files where they moved as they were."""
    places: dict[str, list[str]] = defaultdict(list)
    for now in sorted(here - taken):
        places[now.partition("::")[2]].append(now)
    found = {was: places[was.partition("::")[2]][0] for was in lost if len(places[was.partition("::")[2]]) == 1}
    rows: list[Row] = []
    for file in sorted({was.partition("::")[0] for was in found}):
        moved = {was: now for was, now in found.items() if was.startswith(f"{file}::")}
        targets = {now.partition("::")[0] for now in moved.values()}
        gone = not (ROOT / file).exists() and len(moved) == sum(was.startswith(f"{file}::") for was in lost)
        if gone and len(targets) == 1:
            rows.append({"was": file, "now": targets.pop(), "why": "moved"})
        else:
            rows += [{"was": was, "now": now, "why": "moved"} for was, now in sorted(moved.items())]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ref", default=REF, help=f"the commit whose tests are looked for ({REF})")
    parser.add_argument("--write", action="store_true", help=f"add rows to {TABLE} where it is clear where a test went")
    wish = parser.parse_args()
    before, here, table = tests_at(wish.ref), tests_here(), read_table(ROOT / TABLE)
    rows = {row["was"]: row for row in table}
    gone = sorted(before - here)
    lost = [was for was in gone if missing(was, rows, here)]
    if wish.write:
        taken = before & here | {now.strip() for row in table for now in row["now"].split(" + ")}
        added = propose([was for was in lost if missing(was, rows, here) == "no row"], here, taken)
        with (ROOT / TABLE).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(table + added)
        print(f"{TABLE}: {len(added)} rows added")
        table += added
        rows = {row["was"]: row for row in table}
    faults = check_table(table, before)
    faults += [f"{was}: {fault}" for was in gone if (fault := missing(was, rows, here))]
    for fault in faults:
        print(fault)
    print(
        f"{len(before):,} tests at {wish.ref}, {len(here):,} here: {len(before & here):,} under the same id, {len(gone):,} not, "
        f"{len(here - before):,} new ids, {len(faults):,} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
