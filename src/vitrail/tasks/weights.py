"""Which weights a run starts from where nobody has named any: by the images, their number, the time, and what can be had.

In this order: the local cache, the hub, the package, else none. A candidate that cannot see the training images three times within the run's
time is not taken; one training step of it is measured.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitrail.data.findings import plural
from vitrail.errors import VitrailError
from vitrail.models.catalogue import create_model
from vitrail.models.folder import WEIGHTS, find_own
from vitrail.models.markdown import plain
from vitrail.models.pretrained import (
    COMMIT,
    PERMISSIVE,
    ROOT,
    TABLE,
    check_sums,
    digest,
    find_packaged,
    front_matter_of,
    join_digests,
)
from vitrail.models.reading.hub import (
    NoAnswerError,
    ask,
    download,
    find_cached,
    host,
    is_hub_id,
    is_offline,
    split_hub_id,
    without_network,
)
from vitrail.models.reading.source import SAFE_FILES

EPOCHS = 3  # passes over the training images that there must be time for
UNTIMED = 30.0  # minutes that they may take in a run without --minutes
SIDES = (160, 128)  # at which a model for large images is tried where it is too slow at their own size
NARROW, WIDE = 64, 128  # pixels a side that package weights are used at
TRIAL = 8  # images of the step that is measured
DEFAULT = "vitrail_small"  # package weights that are taken by themselves
NOT_ASKED = "--pretrained none trains from scratch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What the choice depends on."""

    images: int  # in the training split
    size: tuple[int, int]  # as a model without weights would read them
    fixed: bool  # whether a user has said so
    classes: int
    minutes: float | None
    model: str = "auto"  # or a name of the catalogue, whose weights are meant
    device: str = "cpu"
    precision: str = "fp32"

    @property
    def seconds(self) -> float:
        return 60 * (UNTIMED if self.minutes is None else self.minutes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Weights, the size of the images that they read, and why; `source` None: from scratch."""

    source: str | None
    size: tuple[int, int] | None
    line: str


def choose_weights(
    wanted: Wanted, *, root: Path = ROOT, clock: Callable[[], float] = time.perf_counter, table: Sequence[Any] = TABLE
) -> Chosen:
    """The first of the order that can be had and is fast enough. `clock` is asked before and after each measured step."""
    reasons, minutes = list[str](), wanted.seconds / 60
    slow = f"too slow here for {EPOCHS} epochs in {minutes:g} {plural(minutes, 'minute')}"
    rows = [row for row in table if row.automatic and row.license in PERMISSIVE and not row.gated]
    speeds: dict[str, float] = {}

    def fits(name: str, size: tuple[int, int], make: Callable[[], nn.Module]) -> bool:
        if name not in speeds:
            speeds[name] = measure_step(make(), size, device=wanted.device, precision=wanted.precision, clock=clock) / (
                size[0] * size[1]
            )
        return EPOCHS * wanted.images * speeds[name] * size[0] * size[1] <= wanted.seconds

    cached = [row for row in rows if find_cached(row.source, SAFE_FILES, row.revision or None) is not None]
    if cached or not is_offline():
        candidates = [row for row in cached or rows if wanted.model in ("auto", row.name)]
        where = "in the local cache" if cached else f"from {host()}"
        try:
            if not cached and candidates:
                ask(candidates[0].source, candidates[0].revision or None)
            for row in candidates:
                for size in sizes_of(wanted):
                    make = partial(create_model, row.name, image_size=size, num_classes=wanted.classes)
                    if not fits(row.name, size, make):
                        continue
                    with without_network(bool(cached)):
                        source = pin(row.pinned)
                    about = describe_license(source)
                    return Chosen(source=source, size=size, line=f"weights: {source} ({where}, {about}); {NOT_ASKED}")
            reasons.append(f"those {where} are {slow}" if candidates else f"none {where} for {wanted.model}")
        except NoAnswerError as error:
            reasons.append(error.reason)
        except VitrailError as error:
            reasons.append(str(error))
    else:
        reasons.append("nothing in the local cache, no server asked")
    why = "; ".join(reasons)
    packaged = find_packaged(DEFAULT if wanted.model == "auto" else wanted.model, root)
    if packaged is not None:
        size = packaged_size(wanted)
        make = partial(create_model, packaged.name, image_size=size, num_classes=wanted.classes)
        if fits(packaged.title, size, make):
            return Chosen(
                source=packaged.title, size=size, line=f"weights: {packaged.title} (in the package; {why}); {NOT_ASKED}"
            )
        why += f"; {packaged.title} is {'too slow too' if slow in why else slow}"
    return Chosen(source=None, size=None, line=f"weights: none ({why}); --pretrained SOURCE starts from some")


def sizes_of(wanted: Wanted) -> Iterator[tuple[int, int]]:
    """The images' own size, and smaller ones of the same shape."""
    yield wanted.size
    height, width = wanted.size
    for side in SIDES:
        if side < min(height, width) and not wanted.fixed:
            scale = side / min(height, width)
            yield round(height * scale / 16) * 16, round(width * scale / 16) * 16


def packaged_size(wanted: Wanted) -> tuple[int, int]:
    """That of the images, within what the weights are good for; a user's own counts more."""
    if wanted.fixed:
        return wanted.size
    side = min(WIDE, max(NARROW, min(wanted.size) // 16 * 16))
    return side, side


def measure_step(
    model: Any,
    size: tuple[int, int],
    *,
    device: str = "cpu",
    precision: str = "fp32",
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds that training takes per image: one step forwards and back. What is drawn at random is drawn as if nothing had been."""
    state = torch.get_rng_state()
    halves = torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=precision == "bf16")
    try:
        model = model.to(device).train()
        images = torch.zeros(TRIAL, model.config.in_channels, *size, device=device)

        def step(images: Tensor) -> None:
            with halves:
                loss = model(images).float().square().mean()
            loss.backward()
            if device.startswith("cuda"):
                torch.cuda.synchronize()

        step(images[:2])  # the first one prepares kernels; two images, as norms of a batch need
        start = clock()
        step(images)
        return (clock() - start) / TRIAL
    finally:
        torch.set_rng_state(state)


# ------------------------------------------------------------------------------------------------------------------ named by somebody


def pin(source: str) -> str:
    """The same weights by their commit, downloaded: what a run stores. Of the package or a path as it is."""
    if not is_hub_id(source) or Path(source).expanduser().exists():
        return source
    repository, revision = split_hub_id(source)
    if find_own(source) is None:  # of another library
        folder = download(repository, SAFE_FILES, revision=revision)
    else:
        folder = download(repository, ["config.json", WEIGHTS, "tokenizer.json", "README.md"], revision=revision)
    commit = folder.name if COMMIT.fullmatch(folder.name) else revision
    return f"{repository}@{commit}" if commit else repository


def find_digest(source: str) -> str | None:
    """The SHA-256 of weights that a name stands for; None of a path, whose file is the user's own."""
    if Path(source).expanduser().exists():
        return None
    if (packaged := find_packaged(source)) is not None:
        return check_sums(packaged.folder)[WEIGHTS]
    if not is_hub_id(source):
        return None
    repository, revision = split_hub_id(source)
    folder = download(repository, SAFE_FILES, revision=revision)
    files = sorted(path for path in folder.iterdir() if path.suffix == ".safetensors")
    return join_digests({path.name: digest(path) for path in files}) if files else None


def check_digest(source: str, expected: str) -> None:
    """That weights are those that a run wrote down, or a user asked for."""
    found = find_digest(source)
    if found is None:
        raise VitrailError(
            f"--weights-sha256 {expected[:16]}: {source} is a path; only weights of the hub and the package are compared"
        )
    if found != expected.lower():
        raise VitrailError(f"--weights {source}: SHA-256 {found[:16]}, expected {expected[:16]}: these are other weights")


def license_of(source: str) -> tuple[str | None, bool]:
    """The license of weights of the hub and whether they are gated: by the table, else by the front matter of their README.md."""
    row = next((row for row in TABLE if row.source == source.partition("@")[0]), None)
    if row is not None:
        return row.license, row.gated
    repository, revision = split_hub_id(source)
    matter = front_matter_of(download(repository, ["README.md"], revision=revision) / "README.md")
    license = matter.get("license_name") or matter.get("license")
    return (str(license) if license else None), any(str(key).startswith("extra_gated") for key in matter)


def describe_license(source: str) -> str:
    """The license, and what it means for whoever uses the weights."""
    license, gated = license_of(source)
    words = "no license named" if license is None else f"license {plain(license)}"
    if license is not None and license.lower() not in PERMISSIVE:
        words += ", which restricts use"
    return f"{words}, gated" if gated else words


def is_named(source: str | None) -> bool:
    """Whether weights are those of the package or of the hub, and no file of the user's."""
    return (
        source is not None
        and not Path(source).expanduser().exists()
        and (find_packaged(source) is not None or is_hub_id(source))
    )


def describe_weights(source: str, sha256: str | None) -> str:
    """What a card says of the weights that a run began with."""
    words = [f"SHA-256 {sha256}"] if sha256 else []
    if find_packaged(source) is not None:
        words = ["in the package", *words]
    elif is_hub_id(source) and not Path(source).expanduser().exists():
        with without_network(), contextlib.suppress(VitrailError):  # a cache that has gone is no reason to lose a card
            words = [describe_license(source), *words]
    return f"{source} ({', '.join(words)})"
