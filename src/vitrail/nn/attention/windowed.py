"""Windowed attention: each cell looks at the cells of its own window; windows may be shifted.

b batch, bw windows of the batch, n tokens, d width
"""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import Supporting, refuse_feature
from vitrail.nn.attention.recording import WindowRecorder, current_recorder, recording
from vitrail.nn.functional.windows import cut_windows, fit_windows, join_windows, seam_mask
from vitrail.scope import OPEN, AttentionCarry, AttentionPosition, Scope
from vitrail.tokens import Places, Windows


@runtime_checkable
class WindowPosition(AttentionPosition, Protocol):
    """One that the layer owns, and that it tells itself where tokens stand."""

    prepares_parameters: bool

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Any: ...


class WindowedAttention(nn.Module):
    """W-MSA, and with a shift SW-MSA  [Liu+ 2021, Swin, section 3.2]: all windows as one batch through `attention`.

    Cost: 4 n d² + 2 · window · n d multiply-adds for n tokens, linear in n  [ibid., eq. 2]. Sides that are not whole windows are padded
    with zeros, which can be seen (as published), and cropped back. On a grid not larger than the window, the window is the grid; the
    position then sees a part of its own window, so that an offset means the same.
    """

    def __init__(
        self,
        attention: nn.Module,
        *,
        window: tuple[int, int],
        shift: tuple[int, int] = (0, 0),
        position: WindowPosition | None = None,
    ) -> None:
        super().__init__()
        if min(window) < 1 or any(not 0 <= step < side for step, side in zip(shift, window, strict=True)):
            raise VitrailError(f"a window's sides are at least 1 and its shift is smaller than it; got {window} and {shift}")
        if isinstance(kernel := getattr(attention, "kernel", attention), Supporting):
            refuse_feature(kernel, "window")
        self.attention, self.position = attention, position
        self.window, self.shift = window, shift
        self.kept: tuple[object, Any] = (None, None)  # what the position prepared last, and for which windows

    def forward(self, x: Float[Tensor, "b n d"], scope: Scope = OPEN) -> Float[Tensor, "b n d"]:
        places = scope.queries
        if places is None or len(places.grid) != 2 or places.prefix or places.index is not None or scope.mask is not None:
            raise VitrailError("windowed attention needs a scope with a grid of two axes, all of its cells, and nothing else")
        height, width = places.grid
        windows = fit_windows((height, width), self.window, self.shift)
        cut = cut_windows(x.reshape(x.shape[0], height, width, -1), windows)
        carry = None if scope.carry is None else scope.carry.within(windows)
        read = self.attend(cut, self.scope(windows, x.shape[0], x.device, carry), windows)
        return join_windows(read, windows).reshape(x.shape)

    def attend(self, cut: Float[Tensor, "bw n d"], scope: Scope, windows: Windows) -> Float[Tensor, "bw n d"]:
        """All windows as one batch. A recorder gets how it was cut."""
        if (recorder := current_recorder()) is None:
            return self.attention(cut, scope)
        with recording(WindowRecorder(recorder, windows)):
            return self.attention(cut, scope)

    def scope(self, windows: Windows, batch: int, device: torch.device, carry: AttentionCarry | None = None) -> Scope:
        """Of one window: its own places, its position, and the seam."""
        seam = seam_mask(windows.grid, windows.window, windows.shift, device)
        places = self.places(windows.window, device)
        return Scope(
            queries=places,
            keys=places,
            mask=None if seam is None else seam.repeat(batch, 1, 1)[:, None],
            position=self.position,
            prepared=None if self.position is None else self.prepare(self.position, places, windows.window, device),
            carry=carry,
        )

    def prepare(self, position: WindowPosition, places: Places, window: tuple[int, int], device: torch.device) -> Any:
        """Once for a window's size, which images of any size share. What inference mode made is of no use outside of it, and what
        a compiler traces is no tensor at all."""
        if position.prepares_parameters or torch.compiler.is_compiling():
            return position.prepare(places, places, device)
        key, (of, prepared) = (window, device, torch.is_inference_mode_enabled()), self.kept
        if of != key:
            prepared = position.prepare(places, places, device)
            self.kept = key, prepared
        return prepared

    def places(self, window: tuple[int, int], device: torch.device) -> Places:
        """Of the cells of a window; one that is smaller than the layer's own is its upper left part."""
        if window == self.window:
            return Places(window)
        cells = torch.arange(self.window[0] * self.window[1], device=device).view(self.window)
        return Places(self.window, index=cells[: window[0], : window[1]].reshape(1, -1))
