#!/usr/bin/env python3
"""A Drawgate pack in Python, from drawgate.proto alone: needs grpcio, grpcio-tools and ssh-keygen."""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

sys.path.append(str(pathlib.Path(__file__).parents[3] / "crates/drawgate-sdk/proto"))
messages, services = grpc.protos_and_services("drawgate.proto")

TOOLS = {}


def tool(description, capabilities=(), timeout=0, **properties):
    """Offers a function as a tool; its keyword arguments are described by JSON Schemas."""

    def register(function):
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        definition = messages.ToolDefinition(
            name=function.__name__, description=description, input_schema_json=json.dumps(schema),
            required_capabilities=capabilities, timeout_seconds=timeout)
        TOOLS[function.__name__] = (function, definition)
        return function

    return register


@tool("Counts the lines, words and characters of a text.", text={"type": "string"})
def text_stats(text):
    return {"lines": len(text.splitlines()), "words": len(text.split()), "characters": len(text)}


@tool("The most frequent words of a text.", ["text"], timeout=5,
      text={"type": "string"}, limit={"type": "integer", "minimum": 1, "maximum": 100})
def top_words(text, limit):
    if not text.strip():
        raise ValueError("the text has no words")
    counted = collections.Counter(word.strip(".,;:!?\"'()").lower() for word in text.split())
    return [{"word": word, "count": count} for word, count in counted.most_common(limit)]


def login(channel, target, name, key, purpose="pack"):
    """Proves the key on this connection; returns the metadata that later requests carry."""
    stub = services.LoginServiceStub(channel)
    challenge = stub.Challenge(messages.ChallengeRequest(), timeout=10)
    statement = (f"drawgate-login-v1\npurpose={purpose}\nname={name}\nserver={challenge.server}\n"
                 f"authority={target}\nnonce={challenge.nonce}\n")
    signed = subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "drawgate-login"],
                            input=statement, capture_output=True, text=True, check=True)
    proof = messages.ProveRequest(statement=statement, signature=signed.stdout)
    return [("drawgate-session", stub.Prove(proof, timeout=10).session)]


def execute(stub, session, request):
    """Runs one tool and sends its result, or its error as it is."""
    response = messages.ExecuteToolResponse(request_id=request.request_id)
    try:
        function, _ = TOOLS[request.tool_name]
        response.output_json = json.dumps(function(**json.loads(request.input_json)))
    except Exception as error:  # whatever a tool raises is the caller's answer
        response.error = str(error)
    stub.ToolResult(response, metadata=session, timeout=10)


def serve(target, name, key, credentials):
    """Offers the tools until the connection ends."""
    channel = (grpc.secure_channel(target, credentials) if credentials
               else grpc.insecure_channel(target))
    with channel, ThreadPoolExecutor(max_workers=8) as pool:
        session = login(channel, target, name, key)
        stub = services.PackServiceStub(channel)
        manifest = messages.PackManifest(
            pack_id=name, version="1.0.0", tools=[definition for _, definition in TOOLS.values()],
            features=[messages.PACK_FEATURE_HEARTBEAT], max_concurrent_calls=8)
        calls = stub.Connect(manifest, metadata=session)
        calls.initial_metadata()  # comes when the tools are registered
        print(f"{name}: {len(TOOLS)} tools offered at {target}", flush=True)
        for request in calls:
            if request.kind == messages.MESSAGE_KIND_HEARTBEAT:
                stub.Alive(messages.Heartbeat(request_id=request.request_id), metadata=session)
            elif request.kind == messages.MESSAGE_KIND_EXECUTE:
                pool.submit(execute, stub, session, request)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", default="127.0.0.1:7700", help="host and port")
    parser.add_argument("--key", required=True, help="SSH private key, authorised for this pack")
    parser.add_argument("--name", default="python-text", help="the pack's name")
    parser.add_argument("--ca", help="CA certificates (PEM) if the gateway has TLS")
    options = parser.parse_args()
    credentials = None
    if options.ca:
        credentials = grpc.ssl_channel_credentials(pathlib.Path(options.ca).read_bytes())
    pause = 0.5
    while True:
        started = time.monotonic()
        try:
            serve(options.gateway, options.name, options.key, credentials)
        except subprocess.CalledProcessError as error:
            sys.exit(f"ssh-keygen: {error.stderr.strip()}")
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                sys.exit(f"{error.code().name}: {error.details()}")
            print(f"connection lost: {error.details()}", file=sys.stderr, flush=True)
        pause = 0.5 if time.monotonic() - started > 60 else min(pause * 2, 30)
        time.sleep(random.uniform(0, pause))


if __name__ == "__main__":
    main()
