"""An MCP server with two tools, `read` and `write`, which do nothing."""

import json
import sys

TOOLS = [{"name": name, "description": f"Would {name} a file", "inputSchema": {"type": "object"}} for name in ("read", "write")]
ANSWERS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"}},
    "tools/list": {"tools": TOOLS},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
    "ping": {},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        known = ANSWERS.get(request["method"])
        answer = {"result": known} if known is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
