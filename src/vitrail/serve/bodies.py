"""The body of a request: read within limits, a file in memory alone."""

from collections.abc import AsyncGenerator

from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import LARGEST, too_large

LARGEST_BODY = 1 << 20  # bytes of a request without a file
DRAINED = 256 << 20  # bytes read and thrown away, so that a browser which is still sending hears the answer


class _InMemory(MultiPartParser):
    spool_max_size = 2 * LARGEST  # starlette would write what is larger than 1 MB to a file: a person's image stays in memory


async def receive_file(request: Request, *, largest: int = LARGEST) -> tuple[str, bytes]:
    """Name and content of the one file of a form."""
    try:
        form = await _InMemory(
            request.headers, limit_stream(request, largest + LARGEST_BODY), max_files=1, max_fields=8
        ).parse()
    except MultiPartException:
        raise StudioError("The upload did not arrive whole: try it once more.", 400) from None
    file = form.get("file")
    if file is None or isinstance(file, str):
        raise StudioError('The upload has no file in its field "file".')
    try:
        return file.filename or "", await file.read()
    finally:
        await file.close()


async def receive_body(request: Request) -> bytes:
    return b"".join([chunk async for chunk in limit_stream(request, LARGEST_BODY)])


async def limit_stream(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """The body of a request; beyond the limit the rest is thrown away and refused."""
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
        if total <= limit:
            yield chunk
        elif total > DRAINED:
            break
    if total > limit:
        raise too_large(limit - LARGEST_BODY) if limit > LARGEST_BODY else StudioError("This request is too long.", 413)
