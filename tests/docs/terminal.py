"""Runs a shell command at a terminal of its own and answers its question: `terminal.py ANSWER COMMAND`.

The answer is typed when the command waits at a prompt, not before: programs may drop what was typed ahead of a
question. What the command prints goes to standard output; its exit code is this one's.
"""

import os
import pty
import sys

PROMPTS = (b"] ", b"? ", b": ", b"$ ", b"# ")

answer, command = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-ec", command])
last = b""
while True:
    try:
        output = os.read(terminal, 65536)
    except OSError:
        # Linux says so when the last process of the terminal has ended.
        break
    if not output:
        break
    os.write(1, output)
    last = (last + output).split(b"\n")[-1]
    if last.endswith(PROMPTS):
        os.write(terminal, answer.encode() + b"\n")
        last = b""
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
