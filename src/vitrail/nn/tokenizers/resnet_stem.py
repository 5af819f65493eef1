"""The hybrid tokenizer: a ResNet in BiT's form looks at the image first, and the cells of its last map are the tokens.

b batch, ch channels in, out channels out, h w sides going in, h2 w2 sides coming out, n tokens, d width
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.patches import patchify
from vitrail.tokens import Tokens

GROUPS = 32  # of every group normalization  [Wu & He 2018]
EXPANSION = 4  # a bottleneck's outer channels over its inner ones  [He+ 2016, table 1]


class StandardizedConv2d(nn.Conv2d):
    """conv(x, (W - mean W) / sqrt(var W + eps)), mean and variance over each output channel's weights  [Qiao+ 2019].

    Padded as TensorFlow's "SAME", with which the published networks were trained: max(kernel - stride, 0) rows in all
    where the stride divides the side, the odd one below. `ResNetStem.grid` admits only images of which that holds.
    """

    def __init__(self, in_channels: int, out_channels: int, *, kernel: int = 1, stride: int = 1) -> None:
        padding, surplus = divmod(max(kernel - stride, 0), 2)
        super().__init__(in_channels, out_channels, kernel, stride=stride, padding=padding, bias=False)
        self.surplus = surplus  # rows below and columns to the right, beyond the symmetric padding

    def reset_parameters(self) -> None:
        # The scale does not matter to the output, but it does to how far a step of the optimizer goes.
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, input: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        if self.surplus:
            input = F.pad(input, (0, self.surplus, 0, self.surplus))
        # Standardizing a filter is normalizing it as a layer. The eps is the one with which timm and transformers run the
        # published weights; the authors' code divides by std + 1e-5 instead.
        weight = F.layer_norm(self.weight, self.weight.shape[1:], eps=1e-8)
        return F.conv2d(input, weight, stride=self.stride, padding=self.padding)


class Bottleneck(nn.Module):
    """relu(shortcut(x) + f(x)), f: 1x1 to `inner` channels, 3x3 with the stride, 1x1 to four times `inner`  [He+ 2016, fig. 5].

    Every convolution is standardized and followed by a group normalization  [Kolesnikov+ 2020, section 2.1]. BiT itself
    normalizes before its convolutions; the hybrid, whose block this is, keeps ResNet's first order.
    """

    def __init__(self, in_channels: int, *, inner: int, stride: int = 1) -> None:
        super().__init__()
        out_channels = EXPANSION * inner
        self.reduce = StandardizedConv2d(in_channels, inner)
        self.reduce_norm = nn.GroupNorm(GROUPS, inner)
        self.spatial = StandardizedConv2d(inner, inner, kernel=3, stride=stride)
        self.spatial_norm = nn.GroupNorm(GROUPS, inner)
        self.expand = StandardizedConv2d(inner, out_channels)
        self.expand_norm = nn.GroupNorm(GROUPS, out_channels)
        nn.init.zeros_(self.expand_norm.weight)  # as the authors do, not timm: a new block passes on its shortcut alone
        reshapes = stride != 1 or in_channels != out_channels
        self.shortcut = StandardizedConv2d(in_channels, out_channels, stride=stride) if reshapes else nn.Identity()
        self.shortcut_norm = nn.GroupNorm(GROUPS, out_channels) if reshapes else nn.Identity()

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        y = F.relu(self.reduce_norm(self.reduce(x)))
        y = F.relu(self.spatial_norm(self.spatial(y)))
        y = self.expand_norm(self.expand(y))
        return F.relu(self.shortcut_norm(self.shortcut(x)) + y)


class ResNetStem(nn.Module):
    """resnet(image) E: the cells of a feature map times one matrix  [Dosovitskiy+ 2021, section 3.1, "Hybrid Architecture"].

    The root divides the sides by 4; each stage after the first halves them and doubles the channels. The default is the
    R50 of R50+ViT-B/16: ResNet-50 without its stage 4, whose three blocks join stage 3 [section 4.1], so that it ends with
    1024 channels at stride 16. A token may be `patch` x `patch` cells of the map, and without stages the root stands
    alone [Steiner+ 2022, R+Ti/16].
    """

    stride: int  # pixels from one token to the next

    def __init__(
        self, in_channels: int, width: int, *, depths: tuple[int, ...] = (3, 4, 9), stem_width: int = 64, patch: int = 1
    ) -> None:
        super().__init__()
        if min(depths, default=1) < 1:
            raise VitrailError(f"a ResNet stem needs at least one block in each stage, got depths {depths}")
        if stem_width < 1 or stem_width % GROUPS:
            raise VitrailError(f"the stem width must be a multiple of its {GROUPS} normalization groups, got {stem_width}")
        self.in_channels, self.patch, self.stride = in_channels, patch, stem_stride(depths) * patch
        self.root = StandardizedConv2d(in_channels, stem_width, kernel=7, stride=2)
        self.root_norm = nn.GroupNorm(GROUPS, stem_width)
        self.stages = nn.Sequential()
        channels = stem_width
        for index, depth in enumerate(depths):
            inner = stem_width * 2**index
            first = Bottleneck(channels, inner=inner, stride=1 if index == 0 else 2)
            channels = EXPANSION * inner
            self.stages.append(nn.Sequential(first, *(Bottleneck(channels, inner=inner) for _ in range(depth - 1))))
        self.fine_width = EXPANSION * stem_width if depths else stem_width
        self.project = nn.Linear(channels * patch**2, width)  # a convolution whose kernel and stride are the patch

    def grid(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """How many tokens along each axis; the sides must be multiples of the stride."""
        height, width = image_size
        if min(height, width) < self.stride or height % self.stride or width % self.stride:
            raise VitrailError(f"the image's sides {height}x{width} must be multiples of the stem's stride {self.stride}")
        return height // self.stride, width // self.stride

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        return self.forward_fine(images)[1]

    def forward_fine(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b out h2 w2"], Tokens]:
        """The map of the first stage, or of the root where it stands alone, whose cells have four pixels; and the tokens."""
        grid = self.grid((images.shape[-2], images.shape[-1]))
        x = F.relu(self.root_norm(self.root(images)))
        x = F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 3, stride=2)  # "SAME" too; no zero exceeds what a ReLU let through
        fine = self.stages[:1](x)
        x = self.stages[1:](fine)
        return fine, Tokens(self.project(patchify(x, (self.patch, self.patch))), grid=grid)  # b n d


def stem_stride(depths: tuple[int, ...]) -> int:
    """Pixels from one cell of the last map to the next: 4 behind the root, twice as many behind each stage after the first."""
    return 4 << max(len(depths) - 1, 0)
