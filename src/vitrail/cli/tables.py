"""A table on a terminal, plain columns elsewhere."""

from collections.abc import Collection, Sequence


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    folding: Collection[str] = ("run", "data", "model"),
) -> None:
    """`folding` are the columns that may break into lines where the terminal is narrow."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from vitrail.run.runs import align

    console = Console(highlight=False)
    if not console.is_terminal:
        print("\n".join(([f"\n{title}"] if title else []) + align(header, rows)))
        return
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for name in header:
        drawn.add_column(name, overflow="fold", no_wrap=name not in folding)
    for row in rows:
        drawn.add_row(*map(Text, row))  # a name in brackets is a name, not a color
    console.print(drawn)
