"""The official Python client of 2026-07-28, told what to do and telling what it sees in lines of JSON.

    pair_client.py URL TOKEN CAPABILITIES

CAPABILITIES is a JSON list of `elicitation`, `sampling` and `roots`. A line of the input is one of
{id, request, params, progress, logLevel}, {cancel: id}, {id, watch: {kinds, uris}}, {end: id} and
{answer: id, result}; a line of the output is one of {id, result}, {id, error}, {progress: id, params},
{notification, params, watch?}, {question: id, method, params}. It ends with its input.
"""

import asyncio
import itertools
import json
import sys

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

DEADLINE_SECONDS = 60
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
CHANGED = {
    ToolsListChanged: "notifications/tools/list_changed",
    PromptsListChanged: "notifications/prompts/list_changed",
    ResourcesListChanged: "notifications/resources/list_changed",
}


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def say(**message):
    print(json.dumps(message), flush=True)


class Questions:
    """Questions to the client, each passed on to whoever wrote to the input."""

    def __init__(self):
        self.ids = itertools.count(1)
        self.open = {}

    async def ask(self, method, params):
        key = next(self.ids)
        self.open[key] = asyncio.get_running_loop().create_future()
        say(question=key, method=method, params=params)
        try:
            return await self.open[key]
        finally:
            del self.open[key]

    async def elicitation(self, _context, params):
        answer = await self.ask("elicitation/create", plain(params))
        return types.ElicitResult.model_validate(answer)

    async def sampling(self, _context, params):
        answer = await self.ask("sampling/createMessage", plain(params))
        return types.CreateMessageResult.model_validate(answer)

    async def roots(self, _context):
        return types.ListRootsResult.model_validate(await self.ask("roots/list", {}))

    def callbacks(self, wanted):
        known = {
            "elicitation": ("elicitation_callback", self.elicitation),
            "sampling": ("sampling_callback", self.sampling),
            "roots": ("list_roots_callback", self.roots),
        }
        return dict(known[name] for name in wanted)


def reference(ref):
    kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
    return kind.model_validate(ref)


def send(client, method, params, meta, progress):
    match method:
        case "tools/list":
            return client.list_tools()
        case "tools/call":
            return client.call_tool(
                params["name"], params.get("arguments"), progress_callback=progress, meta=meta
            )
        case "resources/list":
            return client.list_resources()
        case "resources/templates/list":
            return client.list_resource_templates()
        case "resources/read":
            return client.read_resource(params["uri"])
        case "prompts/list":
            return client.list_prompts()
        case "prompts/get":
            return client.get_prompt(params["name"], params.get("arguments"))
        case "completion/complete":
            return client.complete(reference(params["ref"]), params["argument"])
    raise ValueError(f"unknown method {method}")


async def request(client, message):
    async def progress(progress, total, text):
        params = {"progress": progress, "total": total, "message": text}
        say(progress=message["id"], params=params)

    level = message.get("logLevel")
    meta = {LOG_LEVEL: level} if level else None
    wants = progress if message.get("progress") else None
    try:
        result = await send(client, message["request"], message.get("params", {}), meta, wants)
        say(id=message["id"], result=plain(result))
    except MCPError as error:
        say(id=message["id"], error=plain(error.error))
    except asyncio.CancelledError:
        say(id=message["id"], error={"code": 0, "message": "cancelled"})
        raise


async def watch(client, message):
    wanted = message["watch"]
    filters = {f"{kind}_list_changed": True for kind in wanted.get("kinds", [])}
    uris = wanted.get("uris", [])
    async with client.listen(**filters, resource_subscriptions=uris) as events:
        say(id=message["id"], result=plain(events.honored))
        async for event in events:
            if isinstance(event, ResourceUpdated):
                method, params = "notifications/resources/updated", {"uri": event.uri}
            else:
                method, params = CHANGED[type(event)], {}
            say(notification=method, params=params, watch=message["id"])


async def follow(client, questions, lines):
    tasks = {}
    while line := await lines.readline():
        message = json.loads(line)
        match message:
            case {"answer": key, "result": result}:
                questions.open[key].set_result(result)
            case {"cancel": key} | {"end": key}:
                tasks[key].cancel()
            case {"request": _}:
                tasks[message["id"]] = asyncio.create_task(request(client, message))
            case {"watch": _}:
                tasks[message["id"]] = asyncio.create_task(watch(client, message))
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def logged(params):
    say(notification="notifications/message", params=plain(params))


async def main(url, token, capabilities):
    lines = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    questions = Questions()
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_SECONDS) as http:
        transport = streamable_http_client(url, http_client=http)
        callbacks = questions.callbacks(json.loads(capabilities))
        async with Client(transport, cache=None, logging_callback=logged, **callbacks) as client:
            say(id=0, result={"protocol": client.protocol_version})
            await follow(client, questions, lines)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
