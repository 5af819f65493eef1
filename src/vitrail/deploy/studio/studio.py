"""What the studio does for every page, without a word of HTTP: models, samples, what sessions hand in, and runs."""

import threading
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from vitrail.deploy.studio import runs
from vitrail.deploy.studio.background import Background
from vitrail.deploy.studio.flights import Flights
from vitrail.deploy.studio.models import Models, identify
from vitrail.deploy.studio.samples import NONE, SampleList
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError


class Studio:
    """Models, and what sessions have handed in. Every method may be called from any thread."""

    def __init__(self, models: Models, *, budget: int) -> None:
        self.models, self.store, self.flights = models, Store(budget), Flights()
        self.background = Background(models, self.store)
        self.decoding = threading.BoundedSemaphore(2)  # a decoded image may take 150 MB
        self.remembered: dict[Hashable, str] = {}  # ids of what was made before, by what was asked for
        self._samples: dict[str, SampleList] = {}

    def list_models(self) -> list[dict[str, Any]]:
        return [model.to_json() for model in self.models.present()]

    # Samples

    def list_samples(self, name: str) -> list[dict[str, Any]]:
        samples = self.samples(name)
        listed = [{"id": number, "label": label} for number, label in enumerate(samples.labels)]
        if not samples.has_thumbnails:
            return listed
        return [{**one, "url": f"/api/models/{name}/samples/{one['id']}"} for one in listed]

    def samples(self, name: str) -> SampleList:
        def look_for() -> SampleList:
            if name in self._samples:
                return self._samples[name]
            model = self.models.find(name)
            found = model.facts().find_samples(model.run)
            if found is not NONE:  # what is not there may come: a disk is mounted, data is downloaded
                self._samples[name] = found
            return found

        return self.flights.once(("samples", name), look_for)

    def thumbnail(self, name: str, number: int) -> tuple[bytes, str]:
        samples = self.samples(name)
        with self.decoding:
            return samples.thumbnail(number)

    def sample(self, name: str, number: int, kind: type[Any]) -> Any:
        """As if a person had handed it in."""
        samples = self.samples(name)
        if not issubclass(samples.kind, kind):
            raise StudioError(self.models.find(name).facts().refusal)
        with self.decoding:
            return samples.item(number)

    # Runs

    def list_runs(self) -> dict[str, Any]:
        found = [
            runs.summarize(run, name=name, identity=identify(run), figures_of=self.models.tasks.figures_of)
            for run, name in self._runs()
        ]
        return {"runs": found}

    def curve(self, name: str, *, since: int) -> dict[str, Any]:
        for run, _ in self._runs():
            if identify(run) == name:
                rows = runs.curve(run, since=since, figures_of=self.models.tasks.figures_of)
                return {"rows": rows, "state": runs.state_of(run)}
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
