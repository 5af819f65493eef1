"""Of the labels that may be wrong, the likeliest as images."""

from vitrail.data.dataset import Split
from vitrail.data.images import ImageError
from vitrail.data.transforms import read_fitted
from vitrail.preprocessing import Preprocessing
from vitrail.report.images import encode_image, is_small
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Label, Photograph, percent
from vitrail.tasks.classify.doubted import ABLE, Doubted, DoubtedLabels
from vitrail.tasks.classify.report_samples import Answer, Sample

SHOWN = 5


def show_doubted(labels: DoubtedLabels, preprocessing: Preprocessing) -> Section:
    """The first few as images."""
    title = "Labels that may be wrong"
    if not labels.found:
        return Section(title, note="None: the model contradicts no label of the validation and test images with confidence.")
    some, splits = labels.found[:SHOWN], " and ".join(labels.splits)
    many = f" {labels.path.name} has all {len(labels.found):,}." if len(labels.found) > len(some) else ""
    own = "It may err itself: look before you change a label."
    if labels.agreement < ABLE:
        own = f"But it agrees with {percent(labels.agreement, digits=0)} of all labels only: most of these are mistakes of its own."
    note = f"The {splits} images whose label the model contradicts the most; it has not learned from them. {own}{many}"
    samples = [describe_doubted(one, labels.splits[one.split], preprocessing) for one in some]
    return Section(title, [templates_of(__file__).render("gallery.html", samples=samples)], note=note)


def describe_doubted(one: Doubted, split: Split, preprocessing: Preprocessing) -> Sample:
    lines = [
        Answer("said", "predicted ", Label(one.predicted, columns=32), percent(one.probability, digits=0)),
        Answer("truth", "label ", Label(one.given, columns=32), percent(one.of_given, digits=0)),
    ]
    try:
        image = read_fitted(split, one.index, preprocessing)
    except ImageError:  # gone since it was predicted
        return Sample(None, True, lines, one.name)
    shown = Photograph(encode_image(image), f"{one.name}: labelled {one.given}", pixelated=is_small(image))
    return Sample(shown, True, lines, one.name)
