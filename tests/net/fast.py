"""Which test files `make check` leaves out: writes tests/net/not_fast.txt from the times of a run of all tests.

    python -m pytest -n 2 --junitxml=build/times.xml
    python tests/net/fast.py build/times.xml --seconds 60

Files are taken from the quickest on while their tests, all in all, fit in so many seconds; the others are listed with what they take.
A file that moves is no longer left out, so this is to be done again after files have moved. Standard library only.
"""

import argparse
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("not_fast.txt")
EACH = 0.3  # seconds that a file costs beside its tests: it is imported by every process


def find_file(dotted: str) -> str | None:
    """The file of a test case, whose class name is `tests.data.test_x`, or `tests.data.test_x.TestClass`."""
    words = dotted.split(".")
    for end in range(len(words), 0, -1):
        path = "/".join(words[:end]) + ".py"
        if (ROOT / path).is_file():
            return path
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("times", type=Path, help="what pytest --junitxml wrote")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests that are kept, all of them one after the other")
    wish = parser.parse_args()
    taken: Counter[str] = Counter()
    for case in ElementTree.parse(wish.times).iter("testcase"):
        if (file := find_file(case.get("classname", ""))) is not None:
            taken[file] += float(case.get("time", "0"))
    kept, total, left_out = 0, 0.0, list[tuple[float, str]]()
    for file, seconds in sorted(taken.items(), key=lambda item: item[1]):
        if total + seconds + EACH <= wish.seconds:
            kept, total = kept + 1, total + seconds + EACH
        else:
            left_out.append((seconds, file))
    lines = ["# Test files that `make check` leaves out, and their seconds; written by tests/net/fast.py."]
    lines += [f"{file}  {seconds:.1f}" for seconds, file in sorted(left_out, key=lambda item: item[1])]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(
        f"{LIST.relative_to(ROOT)}: {kept} files stay, {total:.0f} s; {len(left_out)} are left out, {sum(taken.values()) - total:.0f} s"
    )


if __name__ == "__main__":
    main()
