"""What the studio does, without a word of HTTP: pictures, looks and their views, for sessions that do not see each other."""

import hashlib
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.box_data import find_boxes
from vitrail.data.masked import find_masked
from vitrail.data.transforms import center_box
from vitrail.deploy.studio import runs
from vitrail.deploy.studio.background import Background
from vitrail.deploy.studio.detect_facts import DetectFacts
from vitrail.deploy.studio.detect_studio import DetectStudio
from vitrail.deploy.studio.flights import Flights
from vitrail.deploy.studio.mask_facts import MaskFacts
from vitrail.deploy.studio.mask_studio import MaskStudio
from vitrail.deploy.studio.numbers import pack, plain
from vitrail.deploy.studio.passes import GENEROUS, Look, all_rows, arrange, attention_row, prepare_pixels, run_pass
from vitrail.deploy.studio.restore_facts import RestoreFacts
from vitrail.deploy.studio.restore_studio import RestoreStudio
from vitrail.deploy.studio.samples import NONE, Samples, find_samples
from vitrail.deploy.studio.segment_facts import SegmentFacts
from vitrail.deploy.studio.segment_studio import SegmentStudio
from vitrail.deploy.studio.sessions import MOST_PICTURES, Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Facts, Models, StudioModel, identify
from vitrail.deploy.studio.text_facts import TextFacts
from vitrail.deploy.studio.text_studio import TextStudio
from vitrail.deploy.studio.uploads import Picture, encode_pixels, read_upload
from vitrail.deploy.studio.views import show_colors, show_lens, show_map, show_similarity, show_steps, show_token
from vitrail.deploy.studio.volume_facts import VolumeFacts
from vitrail.deploy.studio.volume_studio import VolumeStudio
from vitrail.deploy.studio.working import work

MOST_PREDICTIONS = 20
MOST_LOOKS = 1_000  # remembered by what was asked for, so that the same is not computed again


class Studio:
    """Models, and what sessions have handed in. Every method may be called from any thread."""

    def __init__(self, models: Models, *, budget: int) -> None:
        self.models, self.store, self.flights = models, Store(budget), Flights()
        self.background = Background(models, self.store)
        self.texts, self.restorations = TextStudio(models, self.store), RestoreStudio(models, self.store, self.background)
        self.masks, self.detections = MaskStudio(models, self.store), DetectStudio(models, self.store)
        self.segmentations = SegmentStudio(models, self.store)
        self.volumes = VolumeStudio(models, self.store, self.background)
        self._samples: dict[str, Samples] = {}
        self._looks: dict[Hashable, str] = {}  # the look of a model, picture, erased cells and order, where it was made before
        self._decoding = threading.BoundedSemaphore(2)  # a decoded picture may take 150 MB

    # What there is

    def list_models(self) -> bytes:
        return pack([model.to_json() for model in self.models.present()])

    def list_samples(self, name: str) -> bytes:
        if isinstance(self.models.find(name).facts(), VolumeFacts):
            return self.volumes.list_samples(name)
        samples = self.samples(name)
        return pack(
            [{"id": n, "label": label, "url": f"/api/models/{name}/samples/{n}"} for n, label in enumerate(samples.labels)]
        )

    def samples(self, name: str) -> Samples:
        def look_for() -> Samples:
            if name in self._samples:
                return self._samples[name]
            model = self.models.find(name)
            facts = model.facts()
            if isinstance(facts, RestoreFacts):
                found = find_samples(model.run, None)
            elif isinstance(facts, DetectFacts | SegmentFacts):
                marked = find_boxes if isinstance(facts, DetectFacts) else find_masked
                found = find_samples(model.run, facts.image_size, marked=marked)
            else:
                known = facts if isinstance(facts, MaskFacts) else picture_facts(model)
                found = find_samples(model.run, known.image_size)
                if found is NONE and known.task != "classify":  # it has learned from pictures alone
                    found = find_samples(model.run, None)
            if found is not NONE:  # what is not there may come: a disk is mounted, data is downloaded
                self._samples[name] = found
            return found

        return self.flights.once(("samples", name), look_for)

    def thumbnail(self, name: str, number: int) -> tuple[bytes, str]:
        samples = self.samples(name)
        with self._decoding:
            return samples.thumbnail(number)

    # Pictures

    def add_picture(self, session: str, name: str, content: bytes) -> bytes:
        with self._decoding:
            return self._keep_picture(session, read_upload(name, content))

    def add_sample(self, session: str, model: str, number: int) -> bytes:
        samples = self.samples(model)
        with self._decoding:
            return self._keep_picture(session, samples.picture(number))

    def _keep_picture(self, session: str, picture: Picture) -> bytes:
        name = self.store.put(session, picture, most=MOST_PICTURES)
        height, width = picture.size
        return pack({"id": name, "width": width, "height": height, "name": picture.name, "note": picture.note})

    def picture(self, session: str, name: str) -> Picture:
        return self.store.get(session, name, Picture)

    # Looks

    def look(self, session: str, model: str, picture: str, erased: Sequence[int], order: Sequence[int] | None) -> bytes:
        """One pass, or the one that was made of the same before; who asks for it meanwhile gets the same."""
        entry = self.models.find(model)
        key = (session, model, entry.stored, picture, digest(erased, order))
        return self.flights.once(key, partial(self._look, key, session, entry, picture, erased, order))

    def _look(
        self, key: Hashable, session: str, entry: StudioModel, picture: str, erased: Sequence[int], order: Sequence[int] | None
    ) -> bytes:
        kept, facts = self.store.get(session, picture, Picture), picture_facts(entry)
        name = self._looks.get(key)
        if name is not None:
            try:
                return describe_look(name, self.store.get(session, name, Look), facts, kept)
            except StudioError:
                self._looks.pop(key, None)
        with self._decoding:
            fitted = kept.fit(facts.preprocessing)
        seen = arrange(fitted, facts.grid, erased=erased, order=order)
        fits = facts.attention and facts.attention_bytes < self.store.budget
        self.models.get(entry.id)  # now it is computed with
        with entry.lock:
            model, version = work(entry.model), entry.version
            probabilities, layers, milliseconds = work(
                run_pass,
                model,
                prepare_pixels(seen, facts.preprocessing),
                grid=facts.grid,
                prefix=facts.prefix,
                elements=facts.elements,
                attention=fits,
                half=2 * GENEROUS * facts.attention_bytes > self.store.budget,
            )
        look = Look(
            model=entry.id, version=version, picture=picture, grid=facts.grid, prefix=facts.prefix, has_class=facts.has_class, seen=seen,
            probabilities=probabilities, layers=layers, milliseconds=milliseconds,
        )  # fmt: skip
        name = self.store.put(session, look)
        if len(self._looks) >= MOST_LOOKS:
            self._looks.clear()
        self._looks[key] = name
        return describe_look(name, look, facts, kept)

    def seen(self, session: str, name: str) -> bytes:
        return encode_pixels(self.store.get(session, name, Look).seen)

    def attention(self, session: str, name: str, *, layer: int, head: str, query: str) -> bytes:
        """From what is kept: the model is not asked again."""
        return pack(attention_row(self._use(session, name), layer=layer, head=head, query=query))

    def layers(self, session: str, name: str, *, query: str) -> bytes:
        return pack({"maps": all_rows(self._use(session, name), query)})

    def map(self, session: str, name: str, *, method: str, target: int | None) -> bytes:
        return self._view(session, name, show_map, method=method, target=target)

    def colors(self, session: str, name: str, *, layer: int) -> bytes:
        return self._view(session, name, show_colors, layer=layer)

    def lens(self, session: str, name: str) -> bytes:
        labels = picture_facts(self.models.find(self._use(session, name).model)).labels
        return self._view(session, name, show_lens, labels=labels)

    def steps(self, session: str, name: str, *, layer: int, head: int, query: str) -> bytes:
        return self._view(session, name, show_steps, layer=layer, head=head, query=query)

    def tokens(self, session: str, name: str, *, query: str) -> bytes:
        return self._view(session, name, show_token, query=query)

    def similarity(self, name: str, *, cell: int) -> bytes:
        picture_facts(self.models.find(name))
        return pack(show_similarity(work(self.models.get(name).similarity), cell))

    def _view(self, session: str, name: str, show: Callable[..., dict[str, Any]], **options: Any) -> bytes:
        """What `show` computes with the model of a look; once, and then it is kept with the look."""
        look = self._use(session, name)
        key = (show.__name__, *options.items())

        def compute() -> bytes:
            if key not in look.answers:
                entry = self.models.get(look.model)
                with entry.lock:
                    model = work(entry.model)
                    if entry.version != look.version:
                        raise StudioError("The model has learned more since this look: look again.", 410)
                    look.answers[key] = pack(work(show, model, look, **options))
                self.store.shrink()
            return look.answers[key]

        return self.flights.once((name, key), compute)

    def _use(self, session: str, name: str) -> Look:
        """The look, and its picture with it counts as used."""
        look = self.store.get(session, name, Look)
        with suppress(StudioError):  # a look stands without its picture
            self.store.get(session, look.picture, Picture)
        return look

    # Runs

    def list_runs(self) -> bytes:
        found = [
            runs.summarize(run, name=name, identity=identify(run), figures_of=self.models.figures_of)
            for run, name in self._runs()
        ]
        return pack({"runs": found})

    def curve(self, name: str, *, since: int) -> bytes:
        for run, _ in self._runs():
            if identify(run) == name:
                return pack(
                    {"rows": runs.curve(run, since=since, figures_of=self.models.figures_of), "state": runs.state_of(run)}
                )
        raise StudioError("There is no such run in this studio.", 404)

    def _runs(self) -> list[tuple[Path, str]]:
        """Those below runs/, or the runs of the models that were named; with names that tell them apart."""
        if self.models.sources:
            places = [model.run for model in self.models.present()] + [Path(s).expanduser() for s in self.models.sources]
            found = [run for place in places for run in runs.find_run_folders(place)]
        else:
            found = runs.find_run_folders(self.models.below)
        unique = list({run.resolve(): None for run in found})
        names = [run.name for run in unique]
        return [(run, run.name if names.count(run.name) == 1 else f"{run.parent.name}/{run.name}") for run in unique]


def digest(erased: Sequence[int], order: Sequence[int] | None) -> str:
    """Of which cells are erased, however often and in whatever order they are named, and of where cells are; of one length for any grid."""
    return hashlib.sha256(repr((sorted(set(erased)), None if order is None else list(order))).encode()).hexdigest()


def describe_look(name: str, look: Look, facts: Facts, picture: Picture) -> bytes:
    height, width = picture.size
    rows, columns = facts.preprocessing.size
    box = center_box((width, height), (columns, rows)) if facts.preprocessing.fit == "crop" else (0, 0, width, height)
    best = look.probabilities.argsort(descending=True, stable=True)[:MOST_PREDICTIONS].tolist()
    scores = plain(look.probabilities)
    return pack(
        {
            "id": name,
            "grid": look.grid,
            "prefix": look.prefix,
            "layers": len(look.layers),
            "heads": len(look.layers[0]) if look.layers else 0,
            "predictions": [{"index": i, "label": facts.labels[i], "score": scores[i]} for i in best],
            "ms": look.milliseconds,
            "box": [float(side) for side in box],
            "fits": facts.preprocessing.fit,
            "kept": bool(look.layers),
            "version": hashlib.sha256(repr(look.version).encode()).hexdigest()[:12],
        }
    )


def picture_facts(entry: StudioModel) -> Facts:
    """Of a model that tells what is in a picture; the others have pages of their own."""
    facts = entry.facts()
    if isinstance(facts, TextFacts):
        raise StudioError("This model reads text: it cannot look at a picture.")
    if not isinstance(facts, Facts):
        raise StudioError(f"This model {facts.does}: it has no labels to tell.")
    return facts
