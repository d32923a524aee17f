"""A server made with the official Python SDK, over the transports that need a port.

Usage: transports.py sse|websocket PORT. The SDK has no WebSocket server any more, so that part
carries its messages over a WebSocket with the subprotocol `mcp`, one for each text frame.
"""

import sys

import anyio
import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

server = MCPServer("transports")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def steps(count: int, context: Context) -> str:
    """Reports each of its steps."""
    for step in range(count):
        await context.report_progress(step + 1, count)
    return "done"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("as asked")


async def converse(socket: WebSocket) -> None:
    await socket.accept(subprotocol="mcp")
    to_server, read_stream = create_context_streams(0)
    write_stream, from_server = create_context_streams(0)

    async def inward() -> None:
        async with to_server:
            try:
                while True:
                    text = await socket.receive_text()
                    message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                    await to_server.send(SessionMessage(message))
            except WebSocketDisconnect:
                pass

    async def outward() -> None:
        async with from_server:
            async for message in from_server:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await socket.send_text(text)

    lowlevel = server._lowlevel_server
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inward)
        tasks.start_soon(outward)
        await lowlevel.run(read_stream, write_stream, lowlevel.create_initialization_options())
        tasks.cancel_scope.cancel()


def application(transport: str) -> Starlette:
    if transport == "sse":
        return server.sse_app()
    return Starlette(routes=[WebSocketRoute("/mcp", converse)])


uvicorn.run(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
