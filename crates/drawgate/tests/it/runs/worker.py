#!/usr/bin/python3
"""Stands in for Claude Code: asks its model, calls a tool, tries what it may not, and says what it found."""
import json
import os
import sys
import threading
import urllib.error
import urllib.request

GATEWAY = "http://drawgate.internal"
TOKEN = os.environ["DRAWGATE_RUN_TOKEN"]
# Seconds that an answer is waited for.
PATIENCE = 20


def post(path, body, token=TOKEN, **headers):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(GATEWAY + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), {}


def ask(model="small", path="/relay/fake/v1/messages", token=TOKEN, stream=True):
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "max_tokens": 999999, "stream": stream, "messages": messages}
    return post(path, body, token)


def call(tool, arguments):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}
    _, _, headers = post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    session = {"mcp-session-id": {k.lower(): v for k, v in headers.items()}["mcp-session-id"]}
    post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
    narrowing = {"runId": "another", "redactKeys": ["content"]}
    params = {"name": tool, "arguments": arguments, "_meta": {"drawgate/call": narrowing}}
    _, text, _ = post("/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}, **session)
    return text


prompt = sys.stdin.read()
found = {"token on argv": any(TOKEN in word for word in sys.argv)}
if "for ever" in prompt:
    status = 200
    while status == 200:
        status, text, _ = ask()
    found = {"status": status, "said": text}
elif "give up" in prompt:
    PATIENCE = 1

    def tried(_):
        try:
            return ask()[0]
        except OSError:
            return "given up"

    threads = [threading.Thread(target=tried, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    then = [tried(number) for number in range(10)]
    PATIENCE = 20
    call("vfs_write", {"path": "then.json", "content": json.dumps(then)})
else:
    found["asked"] = [ask()[0], ask(stream=False)[0]]
    found["called"] = call("vfs_write", {"path": "note.txt", "content": "by the worker"})
    found["hidden"] = call("vfs_delete", {"path": "note.txt"})
    found["refused"] = {
        "no token": ask(token=None)[0],
        "forged": ask(token=TOKEN[:-1] + "x")[0],
        "other model": ask(model="large")[0],
        "other provider": ask(path="/relay/spare/v1/messages")[0],
        "other path": ask(path="/relay/fake/v1/files")[0],
        "outside": post("/metrics", {})[0],
        "approval page": post("/approvals/x", {})[0],
    }
print("a note for people")
print(json.dumps({"type": "system", "subtype": "init", "session_id": sys.argv[-1]}))
result = {"type": "result", "subtype": "success", "is_error": False, "result": json.dumps(found)}
print(json.dumps({**result, "session_id": sys.argv[-1]}))
