"""What the studio answers instead of what was asked for: one friendly sentence and a status."""

from vitrail.errors import VitrailError


class StudioError(VitrailError):
    """`status` is HTTP's: 404 not known here, 410 no longer kept, 413 too large, 422 cannot be done."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status
