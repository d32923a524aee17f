"""A server made with the official Python SDK, over stdio. The SDK takes `"3"` for an integer."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("lenient")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


server.run("stdio")
