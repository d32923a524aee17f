#!/usr/bin/env python3
"""A Drawgate agent in Python: lists its tools, or calls one and prints the result as JSON."""

import argparse
import json
import queue
import sys

import grpc

from pack import login, messages, services


class Agent:
    """One conversation: the gateway's messages come in, ours go out by a queue."""

    def __init__(self, target, name, key, capabilities=()):
        self.channel = grpc.insecure_channel(target)
        self.outgoing = queue.Queue()
        session = login(self.channel, target, name, key, purpose="agent")
        self.incoming = services.FoldServiceStub(self.channel).Converse(
            iter(self.outgoing.get, None), metadata=session)
        registration = messages.AgentRegistration(name=name, capabilities=capabilities)
        self.outgoing.put(messages.AgentMessage(register=registration))
        self.welcome = self.next().welcome
        self.calls = 0

    def next(self):
        """The next message that is not a heartbeat."""
        for message in self.incoming:
            if not message.HasField("heartbeat"):
                return message
            self.outgoing.put(messages.AgentMessage(heartbeat=message.heartbeat))
        raise EOFError("the gateway ended the conversation")

    def call(self, tool, arguments):
        self.calls += 1
        call = messages.ToolCall(
            request_id=str(self.calls), tool_name=tool, input_json=json.dumps(arguments))
        self.outgoing.put(messages.AgentMessage(call=call))
        while True:
            message = self.next()
            if message.HasField("result") and message.result.request_id == call.request_id:
                return message.result

    def close(self):
        self.outgoing.put(None)
        self.channel.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateway", default="127.0.0.1:7700", help="host and port")
    parser.add_argument("--key", required=True, help="SSH private key, authorised for this agent")
    parser.add_argument("--name", required=True, help="the agent's name")
    parser.add_argument("tool", nargs="?", help="the tool to call; without it, tools are listed")
    parser.add_argument("arguments", nargs="?", default="{}", help="its arguments, as JSON")
    options = parser.parse_args()
    try:
        agent = Agent(options.gateway, options.name, options.key)
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
    if not options.tool:
        print(json.dumps([tool.name for tool in agent.welcome.tools]))
        return agent.close()
    result = agent.call(options.tool, json.loads(options.arguments))
    agent.close()
    if result.HasField("error"):
        sys.exit(f"{result.error.code}: {result.error.message}")
    print(result.output_json)


if __name__ == "__main__":
    main()
