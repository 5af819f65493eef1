"""Writing words one by one: with a key-value cache against without, and against transformers' `generate`.

    python benchmarks/decoding.py                              # 256 words, batch 16, sizes of transformer_small and gpt_small
    python benchmarks/decoding.py --words 64 --rounds 2        # a quick look

Greedy, no early end, one process, weights as drawn (what is written does not matter, how much does). transformers' models are
Marian and GPT-2 of the same widths, depths, heads and vocabulary; Marian, like the Transformer here, adds sinusoids. The two take turns, and
the best of the rounds counts for each. With one thread (OMP_NUM_THREADS=1) time is that of the processor, so that other programs disturb
less; with several it is that of the clock.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def best(rounds: int, clock: Callable[[], float], *runs: Callable[[], Any]) -> list[float]:
    """Seconds of the fastest round of each, taking turns."""
    found = [float("inf")] * len(runs)
    for _ in range(rounds):
        for number, run in enumerate(runs):
            start = clock()
            run()
            found[number] = min(found[number], clock() - start)
    return found


def main() -> None:
    import torch

    import vitrail as vt
    from vitrail.models.decoding.greedy import greedy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=256)
    parser.add_argument("--source", type=int, default=32, help="words of the source")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--position", default="sinusoidal_1d")
    parser.add_argument("--only", nargs="+", default=["cache", "marian", "gpt2"], choices=["cache", "marian", "gpt2"])
    options = parser.parse_args()

    torch.manual_seed(0)
    words, batch, longest = options.words, options.batch, options.words + 8
    source = torch.randint(5, 8000, (batch, options.source))
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    print(f"{words} words, batch {batch}, {torch.get_num_threads()} threads, best of {options.rounds}")

    def ours(model: Any, given: Any, *, cached: bool = True) -> Callable[[], Any]:
        return lambda: greedy(model, given, longest=words, end=None, cached=cached)

    def theirs(model: Any, ids: torch.Tensor, **extra: Any) -> Callable[[], Any]:
        def run() -> None:
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=words, do_sample=False, num_beams=1, use_cache=True, **extra
            )  # fmt: skip
            assert out.shape[1] >= words

        return run

    def compare(name: str, left: str, right: str, one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> None:
        with torch.inference_mode():
            taken, against = best(rounds, clock, one, other)
        speed = words * batch / taken
        print(f"{name:18} {left} {taken:7.3f} s ({speed:7.0f} words/s), {right} {against:7.3f} s: {against / taken:5.2f}x")

    small = vt.create_model("transformer_small", longest=max(longest, options.source), position=options.position).eval()
    if "cache" in options.only:
        compare("transformer_small", "cached", "uncached", ours(small, source), ours(small, source, cached=False), 1)
    if "marian" in options.only:
        from transformers import MarianConfig, MarianMTModel

        c = small.config
        twin = MarianMTModel(
            MarianConfig(
                vocab_size=c.vocabulary, d_model=c.width, encoder_layers=c.depth, decoder_layers=c.decoder_depth,
                encoder_attention_heads=c.heads, decoder_attention_heads=c.heads, encoder_ffn_dim=c.hidden, decoder_ffn_dim=c.hidden,
                activation_function=c.activation, max_position_embeddings=c.longest, pad_token_id=0, bos_token_id=1, eos_token_id=None,
                decoder_start_token_id=1, forced_eos_token_id=None, scale_embedding=True, share_encoder_decoder_embeddings=True,
            )
        ).eval()  # fmt: skip
        compare("transformer_small", "vitrail", "Marian", ours(small, source), theirs(twin, source), options.rounds)
    if "gpt2" in options.only:
        from transformers import GPT2Config, GPT2LMHeadModel

        language = vt.create_model("gpt_small", longest=longest).eval()
        c = language.config
        gpt = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=c.vocabulary, n_positions=c.longest, n_embd=c.width, n_layer=c.depth, n_head=c.heads, n_inner=c.hidden,
                activation_function="gelu", pad_token_id=0, bos_token_id=1, eos_token_id=None,
            )
        ).eval()  # fmt: skip
        prompt = torch.full((batch, 1), 1)
        compare("gpt_small", "vitrail", "GPT-2", ours(language, batch), theirs(gpt, prompt), options.rounds)


if __name__ == "__main__":
    main()
