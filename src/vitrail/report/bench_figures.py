"""bench.png: what speed costs in accuracy or, without data, how fast each engine is at each batch size."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from vitrail.rendering import BLUE, INK, ORANGE, STRONG, house_style, rule, shorten
from vitrail.report.bench import Benchmark, Row, Subject, count_threads, spell_rate
from vitrail.report.labels import Label, place_labels

COLORS = (BLUE, ORANGE, STRONG, "#3d8f6f", "#8a5fb0", "#b3485e")
MARKERS = ("o", "s", "D", "^", "v", "P")
WIDE = 10.0  # a longer axis is logarithmic: the fastest over the slowest
COLUMNS = 3


def draw_benchmark(found: Benchmark) -> Figure:
    """Accuracy against throughput where there is any accuracy, else throughput against the batch size."""
    scored = {(one.model, one.merge) for one in found.subjects if one.score is not None}
    return draw_tradeoff(found) if any((row.model, row.merge) in scored for row in found.rows) else draw_throughput(found)


def draw_tradeoff(found: Benchmark) -> Figure:
    """A point for each model, engine and merging at the largest batch size; a line joins the mergings of one model by one engine."""
    batch = max(row.batch for row in found.rows)
    points = [(row, one) for row in found.rows if row.batch == batch and (one := found.subject(row)).score is not None]
    models, engines = (
        list(dict.fromkeys(words)) for words in zip(*((row.model, row.engine) for row, _ in points), strict=True)
    )
    with house_style():
        figure = Figure(figsize=(7.2, 4.4))
        axes = figure.subplots()
        figure.subplots_adjust(left=0.11, right=0.97, top=0.9, bottom=0.13)
        axes.set_title(f"What speed costs: {points[0][1].metric} on {found.split}, batches of {batch}", loc="left")
        axes.set_xlabel(f"images per second, {count_threads(found.threads)}")
        axes.grid(color=INK, alpha=0.18, linewidth=0.7)
        labels: list[Label] = []
        covered: list[tuple[float, float]] = []
        for model in models:
            for number, engine in enumerate(engines):
                own = [(row, one) for row, one in points if (row.model, row.engine) == (model, engine)]
                line = [
                    (row.throughput, one.score or 0.0, row.merge) for row, one in sorted(own, key=lambda pair: pair[0].merge)
                ]
                if not line:
                    continue
                color = COLORS[(models.index(model) if len(models) > 1 else number) % len(COLORS)]
                axes.plot(
                    [x for x, _, _ in line], [y for _, y, _ in line],
                    color=color, marker=MARKERS[number % len(MARKERS)], markersize=5, linewidth=1.2,
                )  # fmt: skip
                covered += along([(x, y) for x, y, _ in line])
                fastest = engine == fastest_engine(points, model)
                if fastest or len(models) == 1:  # of several models the markers tell the engines apart
                    x, y, merge = line[0]
                    labels.append(Label(x, y, (title_of(model) if len(models) > 1 else engine) + merge_word(merge), color))
                if fastest:
                    labels += [Label(x, y, merge_word(merge).strip(), color) for x, y, merge in line[1:]]
        if len(models) > 1 and len(engines) > 1:
            signs = [
                Line2D([], [], color=INK, marker=MARKERS[number % len(MARKERS)], markersize=5, linestyle="")
                for number in range(len(engines))
            ]
            axes.legend(signs, engines, loc="lower left", labelcolor=INK)
        set_rates(axes, [row.throughput for row, _ in points], margin=0.35)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=(1, 2, 5, 10)))
        heights = [one.score or 0.0 for _, one in points]
        room = max(0.3 * (max(heights) - min(heights)), 0.01)
        axes.set_ylim(
            min(heights) - room, min(max(heights) + room, 1.0 + 0.2 * room)
        )  # nothing is right more often than always
        place_labels(axes, labels, covered)
        return figure


def along(line: Sequence[tuple[float, float]], steps: int = 24) -> list[tuple[float, float]]:
    """Points on the line through these, and those themselves."""
    return [
        (x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps)
        for (x0, y0), (x1, y1) in pairwise(line)
        for step in range(steps)
    ] + [line[-1]]


def fastest_engine(points: Sequence[tuple[Row, Subject]], model: str) -> str:
    return max((row for row, _ in points if row.model == model), key=lambda row: row.throughput).engine


def title_of(*words: str) -> str:
    return " ".join(shorten(word, 40) for word in words if word)


def merge_word(merge: int) -> str:
    return f" merge {merge}" if merge else ""


def set_rates(axes: Axes, rates: Sequence[float], *, margin: float) -> None:
    """Rates across: logarithmic where they span more than WIDE, with room for words on the right."""
    low, high = min(rates), max(rates)
    if high > WIDE * low:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.5, high * (high / low) ** margin)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: spell_rate(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        span = high - low or high
        axes.set_xlim(max(0.0, low - 0.15 * span), high + margin * span)


def draw_throughput(found: Benchmark) -> Figure:
    """Panels of the models: images per second over the batch size, a line an engine, and above them all the machine's peak."""
    own = [one for one in found.subjects if any((row.model, row.merge) == (one.model, one.merge) for row in found.rows)]
    columns = min(COLUMNS, len(own))
    lines = -(-len(own) // columns)
    engines = list(dict.fromkeys(row.engine for row in found.rows))
    with house_style():
        figure = Figure(figsize=(max(6.4, 4.2 * columns), 3.8 * lines))
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        inches = figure.get_size_inches()
        figure.subplots_adjust(
            left=0.75 / inches[0], right=1 - 0.25 / inches[0], top=1 - 0.45 / inches[1], bottom=0.55 / inches[1],
            wspace=0.28, hspace=0.42,
        )  # fmt: skip
        for axes, one in zip(panels, own, strict=False):
            rows = [row for row in found.rows if (row.model, row.merge) == (one.model, one.merge)]
            draw_panel(axes, one, rows, found, engines)
        for axes in panels[len(own) :]:
            axes.set_visible(False)
        return figure


def draw_panel(axes: Axes, one: Subject, rows: Sequence[Row], found: Benchmark, engines: Sequence[str]) -> None:
    batches = sorted({row.batch for row in rows})
    axes.set_title(title_of(one.model) + merge_word(one.merge), loc="left")
    axes.set_xlabel("images a call")
    axes.set_ylabel(f"images per second, {count_threads(found.threads)}")
    rule(axes)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(batches, [str(batch) for batch in batches])
    peak = [found.peaks[batch] / one.flops for batch in batches]
    axes.plot(batches, peak, color=INK, linestyle=":", linewidth=1.2, marker="" if batches[1:] else "_")
    labels, points = [Label(float(batches[-1]), peak[-1], "matrix-multiply peak", INK)], [(float(batches[-1]), peak[-1])]
    for number, engine in enumerate(engines):
        line = sorted((row for row in rows if row.engine == engine), key=lambda row: row.batch)
        if not line:
            continue
        color = COLORS[number % len(COLORS)]
        across, up = [float(row.batch) for row in line], [row.throughput for row in line]
        axes.plot(across, up, color=color, marker=MARKERS[number % len(MARKERS)], markersize=4.5, linewidth=1.4)
        points += along(list(zip(across, up, strict=True)))
        labels.append(Label(across[-1], up[-1], engine, color))
    axes.set_ylim(0, 1.12 * max([*peak, *(row.throughput for row in rows)]))
    axes.set_xlim(batches[0] / 1.4, batches[-1] * max(2.0, 1.4 * (batches[-1] / batches[0]) ** 0.45))
    place_labels(axes, sorted(labels, key=lambda label: -label.y), points)
