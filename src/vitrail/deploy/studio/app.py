"""The studio's routes. What they answer is made in `studio.py`, in threads of their own: the event loop never waits for a model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from vitrail import report
from vitrail.deploy.studio.pages import PAGES, assemble_page
from vitrail.deploy.studio.scans import LARGEST_SCAN
from vitrail.deploy.studio.security import Guard, error
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import receive_body, receive_file
from vitrail.errors import VitrailError
from vitrail.explain.masked_patches import Statistics

WEB = Path(__file__).parent / "web"
REPORT = Path(report.__file__).parent
HEAVY, LIGHT = (
    8,
    4,
)  # threads that may wait for a model, and those that only look something up: a hover never queues behind a pass
# FastAPI would report requests to whatever the environment names (OpenTelemetry); what happens in the studio is told to nobody.
SILENCE: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}


class SampleChoice(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    sample: StrictInt


class LookOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    picture: StrictStr
    erased: list[StrictInt] = Field(default_factory=list, max_length=100_000)
    order: Annotated[list[StrictInt], Field(max_length=100_000)] | None = None


class TextOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    text: StrictStr
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0


class RestorationOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    picture: StrictStr
    degrade: StrictBool = False
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0


class PictureOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    picture: StrictStr


class ScanOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    scan: StrictStr


class DrawingOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: StrictStr
    picture: StrictStr
    share: Annotated[StrictFloat, Field(ge=0.05, le=0.95)] = 0.75
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0
    hidden: Annotated[list[StrictInt], Field(max_length=100_000)] | None = None  # by hand: then neither share nor seed counts
    statistics: Statistics = "true"


def make_app(studio: Studio, *, port: int, web: Path = WEB) -> ASGIApp:
    """The whole application, its door included."""
    app = FastAPI(title="Vitrail studio", docs_url=None, redoc_url=None, openapi_url=None, telemetry=SILENCE)
    heavy, light = ThreadPoolExecutor(HEAVY, "studio-model"), ThreadPoolExecutor(LIGHT, "studio-light")

    async def run(pool: ThreadPoolExecutor, make: Callable[[], bytes], media: str = "application/json") -> Response:
        return Response(await asyncio.get_running_loop().run_in_executor(pool, make), media_type=media)

    def session(request: Request) -> str:
        return str(request.scope["session"])

    def serve_page(path: str, name: str) -> None:
        content = assemble_page(web, name)

        @app.get(path)
        async def page() -> Response:
            return HTMLResponse(content)

    for path, name in PAGES.items():
        serve_page(path, name)

    @app.get("/static/before_after.{kind}")
    async def before_after(kind: Literal["css", "js"]) -> Response:  # of the reports: one slider for both
        return FileResponse(REPORT / f"before_after.{kind}", media_type=f"text/{kind.replace('js', 'javascript')}")

    @app.get("/api/models")
    async def models() -> Response:
        return await run(light, studio.list_models)

    @app.get("/api/models/{name}/samples")
    async def samples(name: str) -> Response:
        return await run(heavy, lambda: studio.list_samples(name))

    @app.get("/api/models/{name}/samples/{number}")
    async def sample(name: str, number: int) -> Response:
        content, media = await asyncio.get_running_loop().run_in_executor(heavy, lambda: studio.thumbnail(name, number))
        return Response(content, media_type=media)

    @app.post("/api/pictures")
    async def add_picture(request: Request) -> Response:
        if brings_file(request):
            name, content = await receive_file(request)
            return await run(heavy, lambda: studio.add_picture(session(request), name, content))
        choice = read(SampleChoice, await receive_body(request))
        return await run(heavy, lambda: studio.add_sample(session(request), choice.model, choice.sample))

    @app.get("/api/pictures/{name}")
    async def picture(name: str, request: Request) -> Response:
        found = studio.picture(session(request), name)
        return Response(found.preview, media_type=found.media)

    @app.post("/api/looks")
    async def look(request: Request) -> Response:
        asked = read(LookOrder, await receive_body(request))
        return await run(heavy, lambda: studio.look(session(request), asked.model, asked.picture, asked.erased, asked.order))

    @app.get("/api/looks/{name}/seen.png")
    async def seen(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.seen(session(request), name), "image/png")

    @app.get("/api/looks/{name}/attention")
    async def attention(name: str, request: Request, layer: int = -1, head: str = "mean", query: str = "received") -> Response:
        return await run(light, lambda: studio.attention(session(request), name, layer=layer, head=head, query=query))

    @app.get("/api/looks/{name}/layers")
    async def layers(name: str, request: Request, query: str = "received") -> Response:
        return await run(light, lambda: studio.layers(session(request), name, query=query))

    @app.get("/api/looks/{name}/map")
    async def map_of(name: str, request: Request, method: str = "auto", target: int | None = None) -> Response:
        return await run(heavy, lambda: studio.map(session(request), name, method=method, target=target))

    @app.get("/api/looks/{name}/colors")
    async def colors(name: str, request: Request, layer: int = -1) -> Response:
        return await run(heavy, lambda: studio.colors(session(request), name, layer=layer))

    @app.get("/api/looks/{name}/lens")
    async def lens(name: str, request: Request) -> Response:
        return await run(heavy, lambda: studio.lens(session(request), name))

    @app.get("/api/looks/{name}/steps")
    async def steps(name: str, request: Request, query: str, layer: int = -1, head: int = 0) -> Response:
        return await run(heavy, lambda: studio.steps(session(request), name, layer=layer, head=head, query=query))

    @app.get("/api/looks/{name}/tokens")
    async def tokens(name: str, request: Request, query: str) -> Response:
        return await run(heavy, lambda: studio.tokens(session(request), name, query=query))

    @app.get("/api/models/{name}/similarity")
    async def similarity(name: str, cell: int) -> Response:
        return await run(heavy, lambda: studio.similarity(name, cell=cell))

    @app.post("/api/sentences")
    async def sentence(request: Request) -> Response:
        asked = read(TextOrder, await receive_body(request))
        return await run(heavy, lambda: studio.texts.look(session(request), asked.model, asked.text, seed=asked.seed))

    @app.get("/api/sentences/{name}/attention")
    async def text_attention(name: str, request: Request, kind: str, layer: int = -1, head: str = "mean") -> Response:
        return await run(light, lambda: studio.texts.attention(session(request), name, kind=kind, layer=layer, head=head))

    @app.post("/api/restorations")
    async def restore(request: Request) -> Response:
        asked = read(RestorationOrder, await receive_body(request))
        begin = partial(studio.restorations.begin, worse=asked.degrade, seed=asked.seed)
        return await run(light, lambda: begin(session(request), asked.model, asked.picture))

    @app.get("/api/restorations/{name}")
    async def restoring(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.restorations.progress(session(request), name))

    @app.post("/api/restorations/{name}/stop")
    async def stop_restoring(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.restorations.stop(session(request), name))

    @app.get("/api/restorations/{name}/{which}.png")
    async def restored(name: str, which: str, request: Request) -> Response:
        return await run(light, lambda: studio.restorations.file(session(request), name, which), "image/png")

    @app.post("/api/drawings")
    async def draw(request: Request) -> Response:
        asked = read(DrawingOrder, await receive_body(request))
        drawn = partial(studio.masks.draw, share=asked.share, seed=asked.seed, hidden=asked.hidden, statistics=asked.statistics)
        return await run(heavy, lambda: drawn(session(request), asked.model, asked.picture))

    @app.post("/api/detections")
    async def detect(request: Request) -> Response:
        asked = read(PictureOrder, await receive_body(request))
        return await run(heavy, lambda: studio.detections.find(session(request), asked.model, asked.picture))

    @app.get("/api/detections/{name}/boxes/{box}")
    async def box_reading(name: str, box: int, request: Request) -> Response:
        return await run(light, lambda: studio.detections.reading(session(request), name, box=box))

    @app.post("/api/segmentations")
    async def segment(request: Request) -> Response:
        asked = read(PictureOrder, await receive_body(request))
        return await run(heavy, lambda: studio.segmentations.segment(session(request), asked.model, asked.picture))

    @app.get("/api/segmentations/{name}/place")
    async def place(name: str, request: Request, row: float, column: float) -> Response:
        return await run(light, lambda: studio.segmentations.place(session(request), name, row=row, column=column))

    @app.get("/api/segmentations/{name}/attention")
    async def place_attention(name: str, request: Request, row: float, column: float) -> Response:
        return await run(heavy, lambda: studio.segmentations.attention(session(request), name, row=row, column=column))

    @app.post("/api/scans")
    async def add_scan(request: Request) -> Response:
        if brings_file(request):
            name, content = await receive_file(request, largest=LARGEST_SCAN)
            return await run(heavy, lambda: studio.volumes.add_scan(session(request), name, content))
        choice = read(SampleChoice, await receive_body(request))
        return await run(heavy, lambda: studio.volumes.add_sample(session(request), choice.model, choice.sample))

    @app.post("/api/volumes")
    async def label_volume(request: Request) -> Response:
        asked = read(ScanOrder, await receive_body(request))
        return await run(light, lambda: studio.volumes.begin(session(request), asked.model, asked.scan))

    @app.get("/api/volumes/{name}")
    async def labelling(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.volumes.progress(session(request), name))

    @app.post("/api/volumes/{name}/stop")
    async def stop_labelling(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.volumes.stop(session(request), name))

    @app.get("/api/volumes/{name}/{plane}/{number}.png")
    async def volume_slice(name: str, plane: str, number: int, request: Request) -> Response:
        return await run(light, lambda: studio.volumes.slice(session(request), name, plane=plane, number=number), "image/png")

    @app.get("/api/volumes/{name}/labels.nii.gz")
    async def volume_labels(name: str, request: Request) -> Response:
        return await run(light, lambda: studio.volumes.file(session(request), name), "application/gzip")

    @app.get("/api/runs")
    async def runs() -> Response:
        return await run(light, studio.list_runs)

    @app.get("/api/runs/{name}/curve")
    async def curve(name: str, since: int = 0) -> Response:
        return await run(light, lambda: studio.curve(name, since=since))

    @app.exception_handler(VitrailError)
    async def refuse(_: Request, problem: Exception) -> Response:
        return error(str(problem), problem.status if isinstance(problem, StudioError) else 422)

    @app.exception_handler(RequestValidationError)
    async def refuse_value(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        return error(spell(problem.errors()), 422)

    @app.exception_handler(HTTPException)
    async def refuse_address(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        words = {404: "There is nothing at this address.", 405: "This address is not for that kind of request."}
        return error(words.get(problem.status_code, str(problem.detail)), problem.status_code, headers=problem.headers)

    @app.exception_handler(ClientDisconnect)
    async def hang_up(_: Request, __: Exception) -> Response:
        return error("The upload did not arrive whole: try it once more.", 400)

    @app.exception_handler(Exception)
    async def fail(_: Request, __: Exception) -> Response:
        return error("Something went wrong inside the studio; its terminal says what. The page goes on.", 500)

    app.mount("/static", StaticFiles(directory=web), name="static")
    return Guard(app, port=port)


def brings_file(request: Request) -> bool:
    """Whether a file is handed in, rather than a sample chosen."""
    return request.headers.get("content-type", "").startswith("multipart/form-data")


def read(kind: type[Any], body: bytes) -> Any:
    """A request's JSON, or one sentence on what is wrong with it."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as problem:
        raise StudioError(spell(problem.errors())) from None


def spell(problems: Any) -> str:
    """The first of pydantic's complaints as a sentence."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    return f"The request is not as expected: {place + ': ' if place else ''}{first['msg'].lower()}."
