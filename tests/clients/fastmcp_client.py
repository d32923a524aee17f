"""FastMCP's client with its tasks, which it follows by itself: what it gets before and after the gateway has seen that,
printed as one JSON object.

    fastmcp_client.py URL TOKEN ORDINARY_TOOL TASK_TOOL
"""

import asyncio
import json
import sys

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks.client import call_tool_task


def text(result):
    return result.content[0].text


async def as_task(client, tool, arguments):
    """The result by a task, or `None` if the call was answered without one."""
    try:
        task = await call_tool_task(client, tool, arguments)
    except ToolError:
        return None
    return text(await task.result())


async def main(url, token, ordinary, tasked):
    polls = []

    async def look(request):
        if request.headers.get("mcp-method") == "tasks/get":
            polls.append(request.headers.get("mcp-name"))

    def factory(**options):
        return httpx2.AsyncClient(event_hooks={"request": [look]}, **options)

    headers = {"authorization": f"Bearer {token}"}
    transport = StreamableHttpTransport(url, headers=headers, httpx_client_factory=factory)
    message = {"message": "hello"}
    async with Client(transport) as client:
        answered = text(await client.call_tool(ordinary, message))
        early = await as_task(client, ordinary, message)
        made = text(await client.call_tool(tasked, {}))
        late = await as_task(client, ordinary, message)
        followed = text(await client.call_tool(ordinary, message))
    print(json.dumps({
        "answered": answered, "early": early, "made": made, "late": late, "followed": followed,
        "polls": polls,
    }))


asyncio.run(main(*sys.argv[1:]))
