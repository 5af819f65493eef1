"""Addresses made of the tasks' actions: /api/<task>/<action>, of a job also its progress and its end."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import FastAPI, Request
from pydantic import StrictInt, StrictStr, ValidationError
from starlette.responses import Response

from vitrail.deploy.studio.action import Action, Order, Upload
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.serve.bodies import receive_body, receive_file

JSON = "application/json"


class SampleChoice(Order):
    """A sample of a model's run, in the place of a file."""

    model: StrictStr
    sample: StrictInt


@dataclass(frozen=True, kw_only=True)
class Pools:
    """Threads: those that may wait for a model, and those that only look something up."""

    heavy: ThreadPoolExecutor
    light: ThreadPoolExecutor

    async def answer(self, weight: Literal["heavy", "light"], make: Callable[[], Any], media: str = JSON) -> Response:
        """What `make` returns, as it is if these are bytes, else as JSON."""

        def content() -> bytes:
            made = make()
            return made if isinstance(made, bytes) else pack(made)

        pool = self.heavy if weight == "heavy" else self.light
        return Response(await asyncio.get_running_loop().run_in_executor(pool, content), media_type=media)


def add_actions(app: FastAPI, studio: Studio, pools: Pools, task: str, actions: Mapping[str, Action | Upload]) -> None:
    for name, action in actions.items():
        address = f"/api/{task}/{name}"
        if isinstance(action, Upload):
            add_upload(app, studio, pools, address, action, task=task)
            continue
        add_action(app, studio, pools, address, action, task=task)
        if action.output == "job":
            add_job(app, studio, pools, address, action)


def add_action(app: FastAPI, studio: Studio, pools: Pools, address: str, action: Action, *, task: str) -> None:
    media = {"json": JSON, "job": JSON, "png": "image/png", "file": action.media}[action.output]

    @app.api_route(address, methods=[action.method])
    async def act(request: Request) -> Response:
        order = await read_order(request, action)
        context = Context(studio, session_of(request), task)
        return await pools.answer(action.weight, lambda: action.function(context, order), media)


def add_job(app: FastAPI, studio: Studio, pools: Pools, address: str, action: Action) -> None:
    """How far it is, and the wish that it ends, after the step that is being made."""

    def describe(request: Request, name: str, *, stop: bool) -> dict[str, Any]:
        found = studio.store.get(session_of(request), name, action.job)
        found.stopped |= stop
        return found.to_json(name)

    @app.get(f"{address}/{{name}}")
    async def progress(name: str, request: Request) -> Response:
        return await pools.answer("light", lambda: describe(request, name, stop=False))

    @app.post(f"{address}/{{name}}/stop")
    async def stop(name: str, request: Request) -> Response:
        return await pools.answer("light", lambda: describe(request, name, stop=True))


def add_upload(app: FastAPI, studio: Studio, pools: Pools, address: str, upload: Upload, *, task: str = "") -> None:
    """A file of a form, or a sample that is chosen: kept, and described with its id."""

    @app.post(address)
    async def receive(request: Request) -> Response:
        context = Context(studio, session_of(request), task)

        def keep(item: Any) -> dict[str, Any]:
            described: dict[str, Any] = item.to_json(context.put(item, most=upload.most))
            return described

        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            name, content = await receive_file(request, largest=upload.largest)
            return await pools.answer("heavy", lambda: keep(upload.read(context, name, content)))
        choice = check_order(SampleChoice, await receive_body(request))
        return await pools.answer("heavy", lambda: keep(studio.sample(choice.model, choice.sample, upload.kind)))


def session_of(request: Request) -> str:
    return str(request.scope["session"])


async def read_order(request: Request, action: Action) -> Any:
    """The body, or the query parameters, as the action's order."""
    return check_order(action.order, dict(request.query_params) if action.method == "GET" else await receive_body(request))


def check_order(kind: type[Order], given: bytes | dict[str, str]) -> Any:
    """A request's order, or one sentence on what is wrong with it."""
    try:
        return kind.model_validate_json(given) if isinstance(given, bytes) else kind.model_validate(given)
    except ValidationError as problem:
        raise StudioError(spell(problem.errors())) from None


def spell(problems: Any) -> str:
    """The first of pydantic's complaints as a sentence."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    return f"The request is not as expected: {place + ': ' if place else ''}{first['msg'].lower()}."
