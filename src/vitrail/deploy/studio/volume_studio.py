"""What the studio does with models that label volumes, without a word of HTTP: one scan at a time, watched and stoppable."""

from vitrail.data.volumes.cases import Case
from vitrail.deploy.studio.background import Background
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.scans import Scan, find_scans, read_scan, sample_scan
from vitrail.deploy.studio.sessions import Store
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.studio_model import Models
from vitrail.deploy.studio.volume_facts import VolumeFacts
from vitrail.deploy.studio.volumes import Labelling, Volume, bytes_needed, describe_labelling, draw_slice, label_scan
from vitrail.deploy.studio.working import work

MOST_SCANS, MOST_VOLUMES = 6, 2  # of one session


class VolumeStudio:
    """Beside `Studio`, with the same models and the same store."""

    def __init__(self, models: Models, store: Store, background: Background) -> None:
        self.models, self.store, self.background = models, store, background

    def facts(self, model: str) -> VolumeFacts:
        facts = self.models.find(model).facts()
        if not isinstance(facts, VolumeFacts):
            raise StudioError("This model does not label volumes.")
        return facts

    def list_samples(self, model: str) -> bytes:
        return pack([{"id": number, "label": words} for number, (_, words) in enumerate(self._samples(model))])

    def _samples(self, model: str) -> list[tuple[Case, str]]:
        self.facts(model)
        return find_scans(self.models.find(model).run)

    def add_scan(self, session: str, name: str, content: bytes) -> bytes:
        return self._keep(session, work(read_scan, name, content))

    def add_sample(self, session: str, model: str, number: int) -> bytes:
        samples = self._samples(model)
        if not 0 <= number < len(samples):
            raise StudioError("There is no such sample.", 404)
        return self._keep(session, work(sample_scan, samples[number][0]))

    def _keep(self, session: str, scan: Scan) -> bytes:
        return pack(scan.to_json(self.store.put(session, scan, most=MOST_SCANS)))

    def begin(self, session: str, model: str, scan: str) -> bytes:
        """Start labelling, in a thread of its own; what this session had begun before is stopped."""
        facts, entry = self.facts(model), self.models.find(model)
        kept = self.store.get(session, scan, Scan)
        needed = bytes_needed(kept, len(facts.labels))
        if needed > self.store.budget:
            raise StudioError(
                f"This scan needs {needed >> 20} MB of memory, and the studio was given {self.store.budget >> 20} MB "
                "(--memory): `vitrail predict` labels it in less.",
                413,
            )
        begun = Labelling(model=entry.id, name=kept.name)
        name = self.background.begin(
            session, begun, entry, lambda loaded, told: label_scan(loaded, kept, on_slab=told), most=MOST_VOLUMES
        )
        return pack(describe_labelling(name, begun))

    def progress(self, session: str, name: str) -> bytes:
        return pack(describe_labelling(name, self.store.get(session, name, Labelling)))

    def stop(self, session: str, name: str) -> bytes:
        """After the slab that is being labelled."""
        found = self.store.get(session, name, Labelling)
        found.stopped = True
        return pack(describe_labelling(name, found))

    def slice(self, session: str, name: str, *, plane: str, number: int) -> bytes:
        return draw_slice(self._made(session, name), plane, number)

    def file(self, session: str, name: str) -> bytes:
        return self._made(session, name).file

    def _made(self, session: str, name: str) -> Volume:
        made = self.store.get(session, name, Labelling).made
        if made is None:
            raise StudioError("There are no labels of this scan yet.", 404)
        return made
