"""Plugins of Drawgate, the tool gateway for AI agents, in Python.

    from drawgate_plugin import Plugin

    p = Plugin("shout", "1.0.0")

    @p.tool("up", "Upper case", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    def up(ctx, args, meta):
        return args["text"].upper()

    p.run()

One file without dependencies, for Python 3.9 or later. The gateway provides it to plugins that have not
installed it. Tools and hooks are functions or coroutine functions; each runs in a thread of its own.
Standard output belongs to the protocol: what a plugin prints goes to its standard error.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

__version__ = "0.1.0"
__all__ = ["Plugin", "Error"]

_EXTENSION = "dev.drawgate/plugin"
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
# The gateway has no more requests than these under way.
_THREADS = 64

# What each hook is called with, in this order.
_HOOKS = {
    "onMessage": ("threadId", "role", "content"),
    "onBeforeInvoke": ("threadId", "prompt"),
    "onAfterInvoke": ("threadId", "result"),
    "onTaskCreate": ("threadId", "taskId"),
    "onTaskComplete": ("threadId", "taskId", "result"),
    "onTaskFailed": ("threadId", "taskId", "error"),
    "onBroadcast": ("event", "data"),
    "rewriteCall": ("call",),
    "beforeCall": ("call",),
    "afterCall": ("call", "result"),
}


class Error(Exception):
    """What the gateway answers where it does not do what a plugin asks for."""


class Plugin:
    """A plugin. Its name and version are those of its manifest."""

    def __init__(self, name, version):
        self.name = name
        self.version = version
        self._tools = []
        self._hooks = {}
        self._start = None
        self._stop = None

    def tool(self, name, description, schema):
        """Makes a tool of `handler(ctx, args, meta)`, which returns a string."""

        def add(handler):
            self._tools.append((name, description, schema, handler))
            return handler

        return add

    def hook(self, name):
        """Makes a hook of `handler(ctx, ...)`. The manifest must list it under `permissions.hooks`."""
        if name not in _HOOKS:
            raise ValueError(f"unknown hook `{name}`; there are {', '.join(_HOOKS)}")

        def add(handler):
            self._hooks[name] = handler
            return handler

        return add

    def start(self, handler):
        """Has `handler(ctx)` called when tools and hooks have been accepted."""
        self._start = handler
        return handler

    def stop(self, handler):
        """Has `handler(ctx)` called before the process ends. It has five seconds."""
        self._stop = handler
        return handler

    def run(self):
        """Serves until the gateway closes the standard input."""
        _Server(self).serve()


class _Server:
    def __init__(self, plugin):
        self.plugin = plugin
        # Whatever writes to file 1 from now on, programs that the plugin starts included, writes to 2.
        self.output = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self.lock = threading.Lock()
        self.asked = {}
        self.last_id = 0
        self.context = None

    def serve(self):
        pool = ThreadPoolExecutor(_THREADS)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.answered(message)
            elif "id" in message:
                pool.submit(self.answer, message)
        # Handlers that still work have nobody to answer to.
        os._exit(0)

    def send(self, message):
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        with self.lock:
            self.output.write(data)
            self.output.flush()

    def ask(self, method, params):
        future = Future()
        with self.lock:
            self.last_id += 1
            id = self.last_id
            self.asked[id] = future
        self.send({"id": id, "method": "drawgate/" + method, "params": params})
        return future.result()

    def answered(self, message):
        with self.lock:
            future = self.asked.pop(message.get("id"), None)
        if future is None:
            return
        if "error" in message:
            future.set_exception(Error(message["error"]["message"]))
        else:
            future.set_result(message["result"])

    def answer(self, message):
        id, method, params = message["id"], message["method"], message.get("params") or {}
        try:
            handle = self.methods.get(method)
            if handle is None:
                error = {"code": _METHOD_NOT_FOUND, "message": f"unknown method `{method}`"}
                self.send({"id": id, "error": error})
                return
            self.send({"id": id, "result": handle(self, params) or {}})
        except Exception as error:
            traceback.print_exc()
            text = str(error) or type(error).__name__
            self.send({"id": id, "error": {"code": _INTERNAL_ERROR, "message": text}})

    def initialize(self, params):
        settings = params["capabilities"]["extensions"][_EXTENSION]["settings"]
        self.context = _context(self, settings)
        hooks = {"hooks": list(self.plugin._hooks)}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "extensions": {_EXTENSION: hooks}},
            "serverInfo": {"name": self.plugin.name, "version": self.plugin.version},
        }

    def list_tools(self, _params):
        def described(name, description, schema, handler):
            kind = "function" if callable(handler) else type(handler).__name__
            meta = {"dev.drawgate/handler": kind}
            return {"name": name, "description": description, "inputSchema": schema, "_meta": meta}

        return {"tools": [described(*tool) for tool in self.plugin._tools]}

    def call_tool(self, params):
        name, about = params["name"], params["_meta"]
        handler = next(handler for own, _, _, handler in self.plugin._tools if own == name)
        meta = SimpleNamespace(
            thread_id=about["dev.drawgate/threadId"], task_id=about.get("dev.drawgate/taskId")
        )
        try:
            text = _finished(handler(self.context, params["arguments"], meta))
            if not isinstance(text, str):
                kind = type(text).__name__
                raise TypeError(f"the handler of `{name}` returned {kind}; return a string")
            return {"content": [{"type": "text", "text": text}]}
        except Exception as error:
            traceback.print_exc()
            text = str(error) or type(error).__name__
            return {"content": [{"type": "text", "text": text}], "isError": True}

    def call_hook(self, params):
        hook = params["hook"]
        values = [params.get(name) for name in _HOOKS[hook]]
        answer = _finished(self.plugin._hooks[hook](self.context, *values))
        if hook == "onBeforeInvoke" and answer is not None:
            return {"prompt": answer}
        return answer if hook in ("onTaskComplete", "rewriteCall", "beforeCall", "afterCall") else None

    def start(self, _params):
        if self.plugin._start:
            _finished(self.plugin._start(self.context))

    def stop(self, _params):
        if self.plugin._stop:
            _finished(self.plugin._stop(self.context))

    methods = {
        "initialize": initialize,
        "tools/list": list_tools,
        "tools/call": call_tool,
        "drawgate/hook": call_hook,
        "drawgate/start": start,
        "drawgate/stop": stop,
        "ping": lambda self, params: None,
    }


def _finished(answer):
    return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer):
    return await answer


def _context(server, config):
    """What a plugin may ask of the gateway."""

    def invoke(prompt, model=None, timeout=None, allowed_tools=(), schema=None):
        params = {"prompt": prompt, "model": model, "timeout": timeout, "schema": schema}
        return server.ask("invoke", {**params, "allowedTools": list(allowed_tools)})

    def delegate(prompt, parent_thread_id, model=None, max_iterations=None):
        params = {"prompt": prompt, "parentThreadId": parent_thread_id, "model": model}
        return server.ask("delegate", {**params, "maxIterations": max_iterations})

    def done(method, **params):
        server.ask(method, params)

    def log(level):
        def write(message, *values):
            text = str(message) % values if values else str(message)
            params = {"level": level, "data": text}
            server.send({"method": "notifications/message", "params": params})

        return write

    return SimpleNamespace(
        config=config,
        logger=SimpleNamespace(
            debug=log("debug"), info=log("info"), warn=log("warning"), warning=log("warning"), error=log("error")
        ),
        invoker=SimpleNamespace(invoke=invoke),
        send_to_thread=lambda thread_id, message: done("sendToThread", threadId=thread_id, message=message),
        broadcast=lambda event, data=None: done("broadcast", event=event, data=data),
        tasks=SimpleNamespace(
            delegate=delegate,
            get=lambda task_id: server.ask("task", {"taskId": task_id}),
            check_in=lambda thread_id, message: done("checkIn", threadId=thread_id, message=message),
        ),
        store=SimpleNamespace(
            get=lambda key: server.ask("load", {"key": key}).get("value"),
            set=lambda key, value: done("save", key=key, value=value),
            delete=lambda key: done("save", key=key),
        ),
    )
