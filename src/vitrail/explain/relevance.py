"""Gradient-weighted relevance: what each patch adds to the score of a class, layer by layer.

b batch, ch channels, h heads, n m tokens, e value width, ph pw image, gh gw grid
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.explain.cells import to_grid
from vitrail.explain.chain import check_chain, check_square
from vitrail.explain.evaluating import choose_target, differentiating, leaf, pick
from vitrail.explain.layer_inputs import InputsRecorder, LayerInputs
from vitrail.explain.reading import plain_shares, pool_weights
from vitrail.explain.record import attention_layers
from vitrail.models.classifier import Classifier, is_distilled
from vitrail.nn.attention.recording import recording
from vitrail.nn.heads.classification import ClassificationHead
from vitrail.tokens import Tokens


def relevance(
    model: Classifier, images: Float[Tensor, "b ch ph pw"], target: Int[Tensor, "b"] | None = None
) -> Float[Tensor, "b gh gw"]:
    """r R_L with R_l = R_{l-1} + Ā_l R_{l-1}, R_0 = I, Ā = mean over heads of (∇A ⊙ A)+  [Chefer+ 2021, eq. 5-6].

    ∇A is the gradient of the logit of `target` (by default the most likely class), and r what the head reads: the class
    token's row (of a distilled model the mean of both tokens'), the mean over patches of R_L - I, or with attention pooling (∇a ⊙ a)+ of its weights a. Attention stays fused: its gradient comes
    from that of its output, ∇A = ∇out V^T, plus that of the position's read term. No parameter's .grad changes.
    """
    check_chain(model)
    found = attention_layers(model)
    layers = InputsRecorder(found, range(len(found)))
    with differentiating(model):
        with recording(layers):
            tokens = model.forward_features(leaf(model, images))
        logits = model.forward_head(tokens)
        target = choose_target(model, logits, target)
        gradients = torch.autograd.grad(pick(logits, target).sum(), [ran.out for ran in layers.ran])
        read = head_reading(model.head, tokens, target, distilled=is_distilled(model))
        with torch.no_grad():
            count = tokens.x.shape[1]
            chain = torch.eye(count, dtype=tokens.x.dtype, device=tokens.x.device).expand(len(tokens.x), -1, -1)
            for ran, gradient in zip(layers.ran, gradients, strict=True):  # the weights of one layer at a time
                check_square(ran.q.shape[2], ran.k.shape[2], count)
                weights = ran.layer.kernel.weights(ran.q, ran.k, ran.scope)
                chain = chain + relevant(weights, weights_gradient(ran, weights, gradient)) @ chain
            if model.head.pool_by == "mean":  # I would give every patch an even share, whatever was found
                chain = chain - torch.eye(count, dtype=chain.dtype, device=chain.device)
            return to_grid((read[:, None] @ chain).squeeze(1), tokens.places)


def relevant(weights: Float[Tensor, "b h n m"], gradient: Float[Tensor, "b h n m"]) -> Float[Tensor, "b n m"]:
    """Ā = mean over heads of (∇A ⊙ A)+  [Chefer+ 2021, eq. 5]."""
    return (gradient * weights).clamp(min=0).mean(1)


def weights_gradient(
    ran: LayerInputs, weights: Float[Tensor, "b h n m"], gradient: Float[Tensor, "b h n e"]
) -> Float[Tensor, "b h n m"]:
    """∇A of out = A V + read(A), from ∇out."""
    found = gradient @ ran.v.transpose(-2, -1)
    position = ran.scope.position
    if position is None or not position.reads:
        return found
    with torch.enable_grad():
        asked = weights.detach().requires_grad_()
        [through] = torch.autograd.grad((position.read(asked, ran.scope) * gradient).sum(), asked)
    return found + through


def head_reading(
    head: ClassificationHead, tokens: Tokens, target: Int[Tensor, "b"], *, distilled: bool = False
) -> Float[Tensor, "b n"]:
    """r: how much of each token the head reads; with attention pooling, how much of the class's score it reads from each."""
    weights = pool_weights(head, tokens)
    if weights is None:
        return plain_shares(tokens, head.pool_by, distilled=distilled)
    weights = weights.detach().requires_grad_()
    pooled = (weights[:, None] @ tokens.x.detach()).squeeze(1)
    logits = head.output(head.before(pooled))
    [gradient] = torch.autograd.grad(pick(logits, target).sum(), weights)
    return (gradient * weights.detach()).clamp(min=0)
