"""Weights by name: those that come with the package, and a table of recommended ones on the hub. No torch here.

A name of package weights is NAME.TAG, as in `vitrail_small.v1`; NAME alone is its newest tag. Once published, a tag never changes.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError, suggestion
from vitrail.files import write_whole

ROOT = Path(str(files("vitrail.models"))) / "weights"  # a folder NAME.TAG for each
SUMS = "SHA256SUMS"  # beside the files that it is about, as `sha256sum` writes it: they are read only if they agree with it
LARGEST = 8_000_000  # bytes of weights that come with the package
PACKAGED = re.compile(r"(?P<name>\w+)\.v(?P<number>\d+)")
COMMIT = re.compile(r"[0-9a-f]{40}")
# Licenses that allow any use as long as they are named; another one is said before training and in the card.
PERMISSIVE = frozenset({"apache-2.0", "mit", "bsd", "bsd-2-clause", "bsd-3-clause", "isc", "cc0-1.0", "cc-by-4.0", "unlicense"})

RESULTS = "results/results-imagenet.csv of pytorch-image-models"  # where timm publishes accuracies
IMAGENET_21K = "ImageNet-21k, then ImageNet-1k"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recommended:
    """Weights on the hub. What no public source states is empty: `main` is read then, and a run records what it got."""

    name: str  # of the catalogue
    source: str  # the repository
    license: str
    data: str  # what it learned from
    accuracy: float | int | None = None  # % of ImageNet-1k's validation images, top 1
    accuracy_from: str = ""
    revision: str = ""
    megabytes: float | int | None = None
    sha256: str = ""  # of model.safetensors
    gated: bool = False  # asks to accept terms first
    automatic: bool = False  # whether `--pretrained auto` may take it: small, under a permissive license

    @property
    def tag(self) -> str:
        """timm's name of it."""
        return self.source.partition("/")[2]

    @property
    def pinned(self) -> str:
        return f"{self.source}@{self.revision}" if self.revision else self.source


# The best first; of several rows with one name the first is meant by that name.
TABLE: tuple[Recommended, ...] = (
    Recommended(
        name="vit_base_patch16_224", source="timm/vit_base_patch16_224.augreg2_in21k_ft_in1k", license="apache-2.0",
        data=IMAGENET_21K, accuracy=85.108, accuracy_from=RESULTS, megabytes=346,
    ),
    Recommended(
        name="vit_small_patch16_224", source="timm/vit_small_patch16_224.augreg_in21k_ft_in1k", license="apache-2.0",
        data=IMAGENET_21K, accuracy=81.402, accuracy_from=RESULTS, automatic=True,
    ),
    Recommended(
        name="swin_tiny_patch4_window7_224", source="timm/swin_tiny_patch4_window7_224.ms_in22k_ft_in1k", license="mit",
        data=IMAGENET_21K, accuracy=80.966, accuracy_from=RESULTS,
    ),
    Recommended(
        name="vit_base_patch32_224", source="timm/vit_base_patch32_224.augreg_in21k_ft_in1k", license="apache-2.0",
        data=IMAGENET_21K, accuracy=80.732, accuracy_from=RESULTS,
    ),
    Recommended(
        name="vit_tiny_patch16_224", source="timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k", license="apache-2.0",
        data=IMAGENET_21K, accuracy=75.452, accuracy_from=RESULTS, megabytes=22.9, automatic=True,
    ),
    Recommended(
        name="vit_small_patch14_dinov2", source="timm/vit_small_patch14_dinov2.lvd142m", license="apache-2.0",
        data="LVD-142M, without labels",
    ),
    Recommended(
        name="vit_base_patch16_224", source="timm/vit_base_patch16_224.mae", license="cc-by-nc-4.0",
        data="ImageNet-1k, without labels",
    ),
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------- of the package


@dataclass(frozen=True, kw_only=True, slots=True)
class Packaged:
    """Weights that come with the package."""

    name: str
    number: int
    folder: Path

    @property
    def title(self) -> str:
        return f"{self.name}.v{self.number}"


def list_packaged(root: Path = ROOT) -> tuple[Packaged, ...]:
    """By name, the newest tag first."""
    found = []
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        parts = PACKAGED.fullmatch(folder.name)
        if parts is not None and (folder / SUMS).is_file():
            found.append(Packaged(name=parts["name"], number=int(parts["number"]), folder=folder))
    return tuple(sorted(found, key=lambda one: (one.name, -one.number)))


def find_packaged(word: str, root: Path = ROOT) -> Packaged | None:
    """The package weights that a word names: NAME.TAG, or NAME for its newest tag. A tag that a name does not have is refused."""
    known = list_packaged(root)
    for one in known:
        if word in (one.title, one.name):
            return one
    parts = PACKAGED.fullmatch(word)
    tags = [f"v{one.number}" for one in known if parts is not None and one.name == parts["name"]]
    if parts is not None and tags:
        raise VitrailError(f"{parts['name']} has no weights v{parts['number']} in this version: it has {', '.join(tags)}")
    return None


# ------------------------------------------------------------------------------------------------------------------------- by name


def find_recommended(word: str) -> Recommended | None:
    """The row of a name of ours, of timm's tag or of a hub id with or without a revision."""
    source = word.partition("@")[0]
    return next((row for row in TABLE if source in (row.name, row.tag, row.source)), None)


def suggest_weights(word: str | Path) -> str:
    """The nearest name of weights that there are, where a word is no path: for the end of a message."""
    known = [name for one in list_packaged() for name in (one.name, one.title)]
    known += [name for row in TABLE for name in (row.name, row.tag)]
    return "" if "/" in str(word) else suggestion(str(word), known)


def split_tag(model: str) -> tuple[str, str]:
    """A name of the catalogue and the tag of its weights, "" without one: `vitrail_small.v1`, `vit_tiny_patch16_224.augreg_in21k`."""
    name, _, tag = model.partition(".")
    return name, tag


def resolve_source(word: str, *, root: Path = ROOT) -> str:
    """What a user calls weights by, in the one form that a run stores: NAME.TAG of the package, a hub id, or the path as it is."""
    try:
        if Path(word).expanduser().exists():
            return word
    except (OSError, ValueError, RuntimeError):  # a name that is too long, a home that nobody has: no path
        return word
    if (packaged := find_packaged(word, root)) is not None:
        return packaged.title
    if (row := find_recommended(word)) is not None:
        return word if "/" in word else row.pinned
    if "/" in word or "." not in word:
        return word
    from vitrail.models.catalogue import MODELS

    name = split_tag(word)[0]
    if name not in MODELS:
        return word
    if PACKAGED.fullmatch(word) or any(one.name == name for one in list_packaged(root)):
        raise VitrailError(f"{word}: no such weights come with this version (vitrail models --pretrained lists those that do)")
    return f"timm/{word}"


def weights_of(name: str, tag: str = "", *, root: Path = ROOT) -> str:
    """What `pretrained=True` stands for: the weights of a name of the catalogue, and of a tag if one is named."""
    if tag:
        return resolve_source(f"{name}.{tag}", root=root)
    if (packaged := find_packaged(name, root)) is not None:
        return packaged.title
    if (row := find_recommended(name)) is not None:
        return row.pinned
    raise VitrailError(
        f"pretrained=True: no weights come with the library for {name}, and none are recommended; name them, as in "
        'pretrained="owner/name" (a hub id), a folder or a file (vitrail models --pretrained lists those there are)'
    )


def same_source(asked: str, known: str | None) -> bool:
    """Whether weights that are asked for again are those of a run, which names their commit."""
    if known is None or asked == known:
        return asked == known
    one, revision = asked.partition("@")[::2]
    other, commit = known.partition("@")[::2]
    return one == other and COMMIT.fullmatch(commit) is not None and COMMIT.fullmatch(revision) is None


# ------------------------------------------------------------------------------------------------------------------------- digests


def digest(path: Path) -> str:
    """The SHA-256 of a file, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file that a folder lists; nothing where it lists none."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if any(len(line) != 2 or "/" in line[1] for line in lines):
        raise VitrailError(f"{path}: expected lines of a SHA-256 and a file's name")
    return {name: value for value, name in lines}


def check_sums(folder: Path) -> dict[str, str]:
    """The same, after each file was compared: what does not agree is refused before it is parsed."""
    sums = read_sums(folder)
    for name, expected in sums.items():
        path = folder / name
        found = digest(path) if path.is_file() else "none: the file is missing"
        if found != expected:
            raise VitrailError(
                f"{path}: SHA-256 {found[:23]}, {SUMS} says {expected[:16]}; the file is damaged: install it again"
            )
    return sums


def provenance_of(folder: Path, sums: Mapping[str, str]) -> dict[str, Any]:
    """Where a model comes from whose folder lists its files, as the card says it."""
    _, tag = split_tag(folder.name)
    return {"given": folder.name, "origin": "vitrail", "revision": tag or None, "sha256": dict(sums), "adapted": []}


def front_matter_of(path: Path) -> dict[str, Any]:
    """The YAML at the head of a README.md; nothing where there is none."""
    import yaml

    try:
        _, matter, _ = path.read_text(encoding="utf-8").split("---\n", 2)
        found = yaml.safe_load(matter)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def join_digests(sums: Mapping[str, str]) -> str:
    """One SHA-256 for all files of weights: of one file its own, of several that of the lines `sha256sum` prints of them."""
    if len(sums) == 1:
        return next(iter(sums.values()))
    lines = "".join(f"{value}  {name}\n" for name, value in sorted(sums.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------------------- writing


def pack_weights(source: Path, out: Path, *, card: str | None = None, largest: int = LARGEST) -> int:
    """Write a model folder (a run's best/) as package weights: float16 instead of float32, and the SHA-256 of its files. Returns the bytes
    of the weights; the same model gives the same bytes."""
    import safetensors.torch
    import torch

    from vitrail.models.folder import CONFIG, WEIGHTS, find, load_folder
    from vitrail.models.readme import README

    folder = find(source)
    model = load_folder(folder)
    tensors: dict[str, Any] = {}
    for name, tensor in sorted(model.state_dict().items()):
        tensors[name] = tensor.half().contiguous() if tensor.dtype == torch.float32 else tensor.contiguous()
        if tensors[name].is_floating_point() and not torch.isfinite(tensors[name]).all():
            raise VitrailError(f"{folder}: {name} does not fit into float16: its largest value is {tensor.abs().max():g}")
    weights = safetensors.torch.save(tensors)
    if len(weights) > largest:
        raise VitrailError(f"{folder}: {len(weights):,} bytes of float16 weights; package weights have at most {largest:,}")
    if PACKAGED.fullmatch(out.name) is None:
        raise VitrailError(f"{out}: package weights are called NAME.vN, such as vitrail_small.v1")
    if out.exists() and any(out.iterdir()):
        raise VitrailError(f"{out}: exists and is not empty; package weights never change, a new tag is another folder")
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / WEIGHTS, weights)
    write_whole(out / CONFIG, (folder / CONFIG).read_text(encoding="utf-8"))
    write_whole(out / README, (folder / README).read_text(encoding="utf-8") if card is None else card)
    write_whole(out / SUMS, "".join(f"{digest(out / name)}  {name}\n" for name in (CONFIG, WEIGHTS)))
    return len(weights)
