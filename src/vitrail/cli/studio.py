"""vitrail studio"""

from typing import Annotated

from cyclopts import Parameter

from vitrail.tasks.options import whole

EXAMPLES = """Examples:

  vitrail studio                                  all runs below runs/, the newest first
  vitrail studio runs/classify/digits
  vitrail studio runs/classify/a runs/classify/b --open
"""


def studio(
    *runs: Annotated[str, Parameter(help="Run folders or model folders; by default all runs below runs/.")],
    port: Annotated[int, Parameter(converter=whole, help="Where to listen; 0: any port that is free.")] = 8471,
    host: Annotated[str, Parameter(help="127.0.0.1, localhost or ::1: the studio has no password.")] = "127.0.0.1",
    memory: Annotated[int, Parameter(converter=whole, help="MB for images and recorded attention.")] = 512,
    open: Annotated[bool, Parameter(help="Open the page in the browser.", negative="")] = False,
) -> None:
    """Open a page in the browser where you see what a model sees: drop in an image, hover over a patch.

    Only this machine can open it. Images stay in memory; nothing is sent anywhere. Ctrl-C ends it.
    """
    import webbrowser

    from vitrail.serve.server import run_studio

    def ready(address: str) -> None:
        print(f"studio on {address} (Ctrl-C ends it)", flush=True)
        if open:
            webbrowser.open(address)

    run_studio(runs, port=port, host=host, memory=memory, ready=ready)
