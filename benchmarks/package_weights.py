"""Turns a run into weights that come with the package: float16, with the SHA-256 of its files.

    python benchmarks/package_weights.py runs/classify/tiny src/vitrail/models/weights/vitrail_small.v1 --card card.md

Prints the bytes of the weights. The same run gives the same bytes.
"""

import argparse
from pathlib import Path

from vitrail.models.pretrained import pack_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a run, or a model folder")
    parser.add_argument("out", type=Path, help="the new folder NAME.vN")
    parser.add_argument("--card", type=Path, help="the text of README.md; by default that of the model folder")
    given = parser.parse_args()
    card = None if given.card is None else given.card.read_text(encoding="utf-8")
    print(f"{pack_weights(given.source, given.out, card=card):,} bytes")


if __name__ == "__main__":
    main()
