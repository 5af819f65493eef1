"""A recurrent decoder that looks at an image before every word: at all of it a little, or at one place  [Xu+ 2015].

b batch, n words, m places of the image, w width, u width of a place's features
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.nn.convolution.hard_attention import draw_places
from vitrail.nn.recurrent.attention import AdditiveScore, Memory
from vitrail.nn.recurrent.cell import make_layers, run
from vitrail.nn.recurrent.decoder import Carried


class Glimpses(NamedTuple):
    """What the decoder makes of words, and where it looked before each."""

    x: Float[Tensor, "b n w"]
    carried: Carried
    scores: Float[Tensor, "b n m"]  # softmax over the places: attention's weights, or the chances of the draw
    places: Int[Tensor, "b n"] | None  # that were looked at, where attention is hard


class GlimpseDecoder(nn.Module):
    """Attention, then an LSTM's step, then the output, word by word  [Xu+ 2015, section 3.1.2]; features a_i at m places:

        e_ti = f(a_i, h_(t-1)),  alpha_t = softmax(e_t)   [eq. 4-5], f additive
        z_t  = beta_t sum_i alpha_ti a_i                  soft [eq. 13, section 4.2.1], or
        z_t  = beta_t a_s,  s ~ alpha_t                   hard [eq. 8]; in evaluation the likeliest place
        h_t  = LSTM([E y_(t-1); z_t], h_(t-1))            [eq. 1-3]
        o_t  = E y_(t-1) + L_h h_t + L_z z_t              [eq. 7]; the words' logits are linear in it

    beta_t = sigmoid(w^T h_(t-1)) says how much the image matters for this word. The LSTM starts from two functions of the mean of all a_i.
    """

    def __init__(self, width: int, features: int, *, hard: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.hard = hard
        self.start_hidden, self.start_cell = nn.Linear(features, width), nn.Linear(features, width)
        self.score = AdditiveScore(width, features, hidden=width)
        self.gate = nn.Linear(width, 1)
        self.layers = make_layers("lstm", width + features, width, depth=1)
        self.hidden_output, self.context_output = nn.Linear(width, width), nn.Linear(features, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def start(self, features: Float[Tensor, "b m u"]) -> tuple[Carried, Memory]:
        """The LSTM's first state  [Xu+ 2015, section 3.1.2, "f_init"], and the features made ready to be looked at."""
        mean = features.mean(1)
        hidden = tuple(layer(mean).tanh()[None] for layer in (self.start_hidden, self.start_cell))
        everywhere = torch.ones(features.shape[:2], dtype=torch.bool, device=features.device)
        return Carried(hidden), Memory(features, self.score.keys(features), everywhere)

    def forward(self, x: Float[Tensor, "b n w"], carried: Carried, memory: Memory) -> Glimpses:
        """The words' outputs from a state on: of a whole caption, or of its next word alone."""
        hidden, outs, all_scores, places = carried.hidden, [], [], []
        for word in x.chunk(x.shape[1], dim=1):  # b 1 w
            before = hidden[0].transpose(0, 1)  # b 1 w
            scores = self.score(before, memory.keys)  # b 1 m
            if self.hard:
                place = draw_places(scores[:, 0].detach(), 1) if self.training else scores[:, 0].argmax(-1, keepdim=True)
                places.append(place)
                read = memory.states.take_along_dim(place[..., None], dim=1)  # b 1 u
            else:
                read = scores.softmax(-1) @ memory.states
            context = self.gate(before).sigmoid() * read
            out, hidden = run(self.layers, torch.cat([word, context], dim=-1), hidden)
            outs.append(word + self.hidden_output(self.dropout(out)) + self.context_output(context))
            all_scores.append(scores)
        return Glimpses(
            self.dropout(torch.cat(outs, dim=1)),
            Carried(hidden, None, carried.words + x.shape[1]),
            torch.cat(all_scores, dim=1),
            torch.cat(places, dim=1) if places else None,
        )
