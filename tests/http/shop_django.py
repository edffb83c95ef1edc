"""What the shops on Django, Django REST framework and django-ninja answer alike."""

import asyncio

import shop
from django.http import FileResponse, HttpResponse, StreamingHttpResponse


async def _each(chunks):
    for chunk in chunks:
        yield chunk


async def _trickle():
    yield b"first"
    await asyncio.sleep(1.5)
    yield b"second"
    await asyncio.sleep(0.5)
    yield b"third"


def answer(kind, name, *, in_loop, streams_in_loop=None):
    """What this kind of request is answered with. `in_loop`: served by ASGI, where streams are async, if it says nothing else."""
    shop.ran(name)
    streams_in_loop = in_loop if streams_in_loop is None else streams_in_loop
    if kind in shop.CHUNKS:
        chunks = shop.CHUNKS[kind]
        return StreamingHttpResponse(
            _each(chunks) if streams_in_loop else iter(chunks), headers=shop.STREAM_HEADERS[kind]
        )
    if kind == "trickle":
        return StreamingHttpResponse(_trickle() if in_loop else shop.trickle())
    if kind == "large":
        return HttpResponse(b"x" * shop.LARGE)
    if kind == "broken":
        raise RuntimeError("broken")
    if kind == "file":
        return HttpResponse(shop.FILE.read_bytes()) if in_loop else FileResponse(shop.FILE.open("rb"))
    if kind == "late":
        response = HttpResponse("done")
        response._resource_closers.append(shop.late)
        return response
    status, headers, body = shop.plain(kind, name)
    response = HttpResponse(body, status=status)
    for header, value in headers:
        response[header] = (
            f"{response[header]}, {value}" if header == "X-Kept" and header in response else value
        )
    return response
