"""The official Python client, of the SDK's first or second version: everything that a gateway lists, and one use
of each kind, printed as one JSON object.

    python_lists.py MODE URL TOKEN TOOL RESOURCE PROMPT

MODE is `v1`, or `legacy` and `auto` for the second version.
"""

import asyncio
import json
import sys


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def everything(client, tool, resource, prompt, reference):
    return {
        "tools": plain(await client.list_tools())["tools"],
        "resources": plain(await client.list_resources())["resources"],
        "templates": plain(await client.list_resource_templates())["resourceTemplates"],
        "prompts": plain(await client.list_prompts())["prompts"],
        "called": plain(await client.call_tool(tool, {})),
        "read": plain(await client.read_resource(resource)),
        "got": plain(await client.get_prompt(prompt)),
        "completed": plain(await client.complete(reference, {"name": "a", "value": ""})),
    }


async def version1(url, token, tool, resource, prompt):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import PromptReference
    from pydantic import AnyUrl

    headers = {"authorization": f"Bearer {token}"}
    async with streamablehttp_client(url, headers=headers) as (read, write, _):
        async with ClientSession(read, write) as client:
            await client.initialize()
            reference = PromptReference(type="ref/prompt", name=prompt)
            return await everything(client, tool, AnyUrl(resource), prompt, reference)


async def version2(mode, url, token, tool, resource, prompt):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import PromptReference

    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            reference = PromptReference(type="ref/prompt", name=prompt)
            return await everything(client, tool, resource, prompt, reference)


def main():
    match sys.argv[1:]:
        case ["v1", *rest]:
            answer = asyncio.run(version1(*rest))
        case [mode, *rest]:
            answer = asyncio.run(version2(mode, *rest))
        case _:
            sys.exit(__doc__)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
