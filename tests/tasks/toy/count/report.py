"""A section of its report: what was predicted for images of so many objects."""

from vitrail.report.page import Section
from vitrail.report.parts import Table


def sections(scored, setup, rows):
    found, counts = scored.evaluation.found, scored.evaluation.counts
    table = [
        [str(count), str((counts == count).sum()), f"{found[counts == count].mean():.2f}"]
        for count in sorted(set(counts.tolist()))
    ]
    yield Section(
        "Counts", [Table(["Objects", "images", "predicted on average"], table)], note="Of all images with so many objects."
    )


def commands(run, model):
    return {"Count objects": f"vitrail predict {run} IMAGE...", "Score it again": f"vitrail eval {run}"}
