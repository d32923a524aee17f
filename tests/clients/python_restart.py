"""The official Python client, of the SDK's first or second version, before and after a restart of the gateway.

    python_restart.py v1|v2 URL TOKEN TOOL

It calls the tool, waits for a line on its standard input, and calls it again. What that says, and what a new session of
the same program gets, is printed.
"""

import asyncio
import json
import sys


async def use(connect, tool):
    said = {}
    try:
        async with connect() as client:
            said["before"] = (await client.call_tool(tool, {"message": "hello"})).content[0].text
            print("called", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            try:
                again = await asyncio.wait_for(client.call_tool(tool, {"message": "hello"}), 60)
                said["after"] = again.content[0].text
            except Exception as error:
                said["error"] = str(error)
    except BaseExceptionGroup as group:
        said["end"] = str(group)
    async with connect() as client:
        said["anew"] = (await client.call_tool(tool, {"message": "hello"})).content[0].text
    return said


def version1(url, token):
    from contextlib import asynccontextmanager
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    @asynccontextmanager
    async def connect():
        headers = {"authorization": f"Bearer {token}"}
        async with streamablehttp_client(url, headers=headers) as (read, write, _):
            async with ClientSession(read, write) as client:
                await client.initialize()
                yield client

    return connect


def version2(url, token):
    from contextlib import asynccontextmanager
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    @asynccontextmanager
    async def connect():
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="legacy", cache=None) as client:
                yield client

    return connect


version, url, token, tool = sys.argv[1:]
connect = {"v1": version1, "v2": version2}[version](url, token)
print(json.dumps(asyncio.run(use(connect, tool))))
