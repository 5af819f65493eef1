"""The studio's application. What its addresses answer is made in threads of their own: the event loop never waits for a model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from vitrail.deploy import studio as toolkit
from vitrail.deploy.studio.action import Upload
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.page import find_page
from vitrail.deploy.studio.sessions import MOST_IMAGES
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage, read_upload
from vitrail.errors import VitrailError
from vitrail.serve.actions import Pools, add_actions, add_upload, spell
from vitrail.serve.pages import PLAIN, assemble_page
from vitrail.serve.security import Guard, error
from vitrail.serve.tasks import ServedPage, StudioTasks

WEB = Path(toolkit.__file__).parent / "web"
HEAVY, LIGHT = (
    8,
    4,
)  # threads that may wait for a model, and those that only look something up: a hover never queues behind a pass
# FastAPI would report requests to whatever the environment names (OpenTelemetry); what happens in the studio is reported to nobody.
SILENCE: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}


def make_app(studio: Studio, tasks: StudioTasks, *, port: int) -> ASGIApp:
    """The whole application, its door included."""
    app = FastAPI(title="Vitrail studio", docs_url=None, redoc_url=None, openapi_url=None, telemetry=SILENCE)
    pools = Pools(heavy=ThreadPoolExecutor(HEAVY, "studio-model"), light=ThreadPoolExecutor(LIGHT, "studio-light"))
    for address, served in tasks.pages.items():
        add_page(app, address, served)
    add_models(app, studio, pools)
    add_runs(app, studio, pools)

    @app.get("/api/tasks")
    async def list_tasks() -> Response:
        return Response(pack(tasks.to_json()), media_type="application/json")

    for task in tasks.parts:
        add_actions(app, studio, pools, task, tasks.actions(task))
    add_errors(app)
    add_files(app, tasks)
    return Guard(app, port=port, pages=frozenset(tasks.pages))


def add_page(app: FastAPI, address: str, served: ServedPage) -> None:
    content = assemble_page(WEB / "shell.html", served)

    @app.get(address)
    async def page() -> Response:
        return HTMLResponse(content)


def add_models(app: FastAPI, studio: Studio, pools: Pools) -> None:
    """Models, their samples, and images that are handed in: what every page has."""

    @app.get("/api/models")
    async def models() -> Response:
        return await pools.answer("light", studio.list_models)

    @app.get("/api/models/{name}/samples")
    async def samples(name: str) -> Response:
        return await pools.answer("heavy", lambda: studio.list_samples(name))

    @app.get("/api/models/{name}/samples/{number}")
    async def sample(name: str, number: int) -> Response:
        content, media = await asyncio.get_running_loop().run_in_executor(pools.heavy, lambda: studio.thumbnail(name, number))
        return Response(content, media_type=media)

    add_upload(app, studio, pools, "/api/images", Upload(read=read_image, kind=UploadedImage, most=MOST_IMAGES))

    @app.get("/api/images/{name}")
    async def image(name: str, request: Request) -> Response:
        found = studio.store.get(str(request.scope["session"]), name, UploadedImage)
        return Response(found.preview, media_type=found.media)


def read_image(context: Context, name: str, content: bytes) -> UploadedImage:
    with context.studio.decoding:
        return read_upload(name, content)


def add_runs(app: FastAPI, studio: Studio, pools: Pools) -> None:
    @app.get("/api/runs")
    async def runs() -> Response:
        return await pools.answer("light", studio.list_runs)

    @app.get("/api/runs/{name}/curve")
    async def curve(name: str, since: int = 0) -> Response:
        return await pools.answer("light", lambda: studio.curve(name, since=since))


def add_files(app: FastAPI, tasks: StudioTasks) -> None:
    """What pages load: the files of a page below its own address, those that pages share below /static."""

    def add_file(address: str, path: Path) -> None:
        @app.get(address)
        async def file() -> Response:
            return FileResponse(path)

    plain = find_page(PLAIN)
    app.mount(f"/static/pages/{PLAIN}", StaticFiles(directory=plain.web), name=PLAIN)
    for served in tasks.pages.values():
        for name, path in served.page.files.items():
            add_file(f"{served.files}/{name}", path)
        app.mount(served.files, StaticFiles(directory=served.page.web), name=served.files)
    app.mount("/static", StaticFiles(directory=WEB), name="static")


def add_errors(app: FastAPI) -> None:
    """One sentence for whatever goes wrong."""

    def handle(kind: type[Exception], answer: Callable[[Any], Response]) -> None:
        async def refuse(_: Request, problem: Exception) -> Response:
            return answer(problem)

        app.add_exception_handler(kind, refuse)

    handle(VitrailError, lambda problem: error(str(problem), problem.status if isinstance(problem, StudioError) else 422))
    handle(RequestValidationError, lambda problem: error(spell(problem.errors()), 422))
    handle(HTTPException, refuse_address)
    handle(ClientDisconnect, lambda _: error("The upload did not arrive whole: try it once more.", 400))
    handle(
        Exception,
        lambda _: error("Something went wrong inside the studio; its terminal says what. The page goes on.", 500),
    )


def refuse_address(problem: HTTPException) -> Response:
    words = {404: "There is nothing at this address.", 405: "This address is not for that kind of request."}
    return error(words.get(problem.status_code, str(problem.detail)), problem.status_code, headers=problem.headers)
