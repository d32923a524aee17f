"""The official Python client: lists the tools, makes the given calls, prints all as one JSON object.

    python_client.py MODE http CALLS URL TOKEN
    python_client.py MODE stdio CALLS COMMAND [ARG ...]

MODE is `legacy` (the initialize handshake) or `auto` (`server/discover` first). CALLS is a JSON list
of [tool, arguments]; the tools are called once all of them are listed.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

DEADLINE_SECONDS = 60


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def list_tools(client):
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools


async def converse(client, calls):
    wanted = {tool for tool, _ in calls}
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            tools = await list_tools(client)
            if wanted <= {tool.name for tool in tools}:
                break
            await asyncio.sleep(0.05)
    results = [plain(await client.call_tool(tool, arguments)) for tool, arguments in calls]
    return {
        "protocol": client.protocol_version,
        "tools": [plain(tool) for tool in tools],
        "results": results,
    }


async def over_http(mode, calls, url, token):
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_SECONDS) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            return await converse(client, calls)


async def over_stdio(mode, calls, command, args):
    server = StdioServerParameters(command=command, args=args)
    async with Client(server, mode=mode, cache=None) as client:
        return await converse(client, calls)


def main():
    match sys.argv[1:]:
        case [mode, "http", calls, url, token]:
            answer = asyncio.run(over_http(mode, json.loads(calls), url, token))
        case [mode, "stdio", calls, command, *args]:
            answer = asyncio.run(over_stdio(mode, json.loads(calls), command, args))
        case _:
            sys.exit(__doc__)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
