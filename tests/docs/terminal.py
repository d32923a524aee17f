"""Runs a shell command at a terminal of its own and types one line: `terminal.py LINE COMMAND`.

What the command prints goes to standard output; its exit code is this one's.
"""

import os
import pty
import sys

line, command = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-ec", command])
os.write(terminal, line.encode() + b"\n")
while True:
    try:
        output = os.read(terminal, 65536)
    except OSError:
        # Linux says so when the last process of the terminal has ended.
        break
    if not output:
        break
    os.write(1, output)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
