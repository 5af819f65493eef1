"""Serving the studio on this machine."""

import socket
from collections.abc import Callable, Sequence

from vitrail.errors import VitrailError
from vitrail.extras import need

ADDRESSES = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}


def run_studio(
    sources: Sequence[str],
    *,
    port: int = 8471,
    host: str = "127.0.0.1",
    memory: int = 512,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl-C. `ready` is called with the address once it can be opened; `memory` is in MB."""
    need("fastapi", "serve")
    need("uvicorn", "serve")
    need("python_multipart", "serve")
    import uvicorn

    from vitrail.deploy.studio.models import Models
    from vitrail.deploy.studio.runs import find_run_folders
    from vitrail.deploy.studio.studio import Studio
    from vitrail.serve.app import make_app
    from vitrail.serve.tasks import StudioTasks

    if memory < 1:
        raise VitrailError(f"--memory must be at least 1 MB, got {memory}")
    tasks = StudioTasks()
    models = Models(sources, tasks=tasks)
    if not models.present() and not find_run_folders(models.below):
        raise VitrailError("no runs below runs/: train one with `vitrail train --data digits`, or name a run or model folder")
    with bind(host, port) as listening:
        own = listening.getsockname()[1]
        app = make_app(Studio(models, budget=memory << 20), tasks, port=own)
        server = uvicorn.Server(
            uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=2
            )
        )
        ready(f"http://{'[::1]' if host == '::1' else '127.0.0.1'}:{own}/")
        server.run(sockets=[listening])


def bind(host: str, port: int) -> socket.socket:
    """A socket of this machine alone: the studio has no password."""
    if host not in ADDRESSES:
        raise VitrailError(
            f"--host must be {', '.join(ADDRESSES)}, got {host}: the studio has no password, so only this machine may open it "
            "(from elsewhere: ssh -L 8471:127.0.0.1:8471)"
        )
    if not 0 <= port <= 65535:
        raise VitrailError(f"--port must be 0 (any that is free) to 65535, got {port}")
    found = socket.socket(ADDRESSES[host])
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen()  # from here on a browser may come: it waits until the server takes it in
    except OSError as error:
        found.close()
        raise VitrailError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from None
    return found
