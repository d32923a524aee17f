#!/usr/bin/env python3
"""Makes the pictures of README with the program that is built: `docs/images/make.py [PROGRAM [FOLDER]]`.

`session.svg` is a recorded terminal session, `approval.png` the page of an approval in Chromium. Both show a gateway
of their own, in a home and a network of their own (which takes root). The times between lines are made up, so that
people can read along, and the home is called `/home/ann`; all else is as the program printed it.
"""

import fcntl
import html
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
TIME_SERVER = TOP / "tests/clients/.venv/bin"
COLUMNS = 104
GATEWAY = "http://127.0.0.1:7700"
CONFIGURATION = """
[approvals]
hold_seconds = 300

[policy]
defaults = { fallback = "allow" }

[[policy.rules]]
id = "deletes-need-a-person"
action = "*"
when = { toolId = "builtin:vfs_delete" }
decision = "allow_with_confirm"
reason = "deleting needs a person"
"""

# Colours of the terminal, by the numbers of SGR.
COLOURS = {30: "#6e7681", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#e6edf3", 90: "#8b949e"}
TEXT, PROMPT, COMMAND, BACKGROUND = "#c9d1d9", "#7ee787", "#ffffff", "#0d1117"
LINE, WIDTH, SIZE = 19, 7.83, 13
# When the last line appears, in seconds: few people watch for longer than ten.
LAST = 9.0


def in_own_network():
    """Starts this program again where nothing but loopback is, and returns there."""
    network = os.environ.get("DRAWGATE_PICTURES")
    if network is None:
        os.environ["DRAWGATE_PICTURES"] = "apart"
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, __file__, *sys.argv[1:]])
    if network == "apart":
        up = struct.pack("16sH14x", b"lo", 1)
        fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, up)


class Home:
    """A user with a gateway."""

    def __init__(self, program):
        self.folder = Path(tempfile.mkdtemp(prefix="drawgate-pictures-"))
        (self.folder / "bin").mkdir()
        (self.folder / "bin/drawgate").symlink_to(program)
        config = self.folder / ".config/drawgate/drawgate.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIGURATION)
        path = f"{self.folder}/bin:{TIME_SERVER}:/usr/bin:/bin"
        self.env = {"HOME": str(self.folder), "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": str(COLUMNS)}
        self.gateway = self.start("drawgate serve")
        self.wait(lambda: urllib.request.urlopen(f"{GATEWAY}/readyz").status == 200)

    def start(self, command):
        return subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait(self, condition):
        for _ in range(1200):
            try:
                found = condition()
                if found:
                    return found
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit("it never happened")

    def json(self, command):
        out = subprocess.run(["sh", "-c", f"{command} --json"], cwd=self.folder, env=self.env, capture_output=True, check=True, text=True)
        return json.loads(out.stdout)

    def call(self, token, tool, arguments):
        """Calls a tool over MCP, as an agent does."""
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        request = urllib.request.Request(f"{GATEWAY}/mcp", data=body, headers=headers)
        answer = urllib.request.urlopen(request).read().decode()
        if '"isError":true' in answer or '"error"' in answer:
            raise SystemExit(f"`{tool}` failed: {answer}")

    def approval(self):
        """The id of the approval that waits."""
        return self.wait(lambda: self.json("drawgate approvals list"))[0]["id"]

    def at_terminal(self, command):
        """What a command prints at a terminal of this width."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("sh", ["sh", "-c", command], self.env)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        printed = b""
        while select.select([terminal], [], [], 60)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            if not part:
                break
            printed += part
            if printed.endswith(b"] "):
                os.write(terminal, b"y\n")
        text = printed.decode().replace("\r\n", "\n").rstrip("\n")
        # A line that was written over, such as a spinner's, is shown as it was at the end.
        text = "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit(f"`{command}` failed:\n{text}")
        return text

    def end(self):
        self.gateway.send_signal(signal.SIGTERM)
        self.gateway.wait()
        shutil.rmtree(self.folder)


def session(home):
    """The session, as pairs of a command and what it printed."""
    steps = []

    def run(command, comment=""):
        steps.append((command, comment, home.at_terminal(command)))

    run("drawgate servers add time -- mcp-server-time", "in the sandbox: no network, no files of yours")
    run("drawgate tools call time__get_current_time timezone=Europe/Paris")
    run("drawgate agents add research-bot --tools 'time__* vfs_*' --quiet > bot.token")
    token = (home.folder / "bot.token").read_text().strip()
    home.call(token, "vfs_write", {"path": "notes.txt", "content": "call Ada"})
    with ThreadPoolExecutor() as agent:
        call = agent.submit(home.call, token, "vfs_delete", {"path": "notes.txt"})
        steps.append(("", "research-bot, an agent, calls vfs_delete; a rule wants a person for that", ""))
        identity = home.approval()
        run("drawgate approvals list")
        run(f"drawgate approvals approve {identity}")
        call.result()
    run("drawgate audit search --since 5m --tool '*delete*'", "who deleted the file?")
    run("drawgate audit verify")
    return [(command, comment, printed.replace(str(home.folder), "/home/ann")) for command, comment, printed in steps]


def coloured(line):
    """A line with escape sequences as spans: colour, bold, text."""
    colour, bold, spans = None, False, []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        sequence = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if sequence is None:
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", part)
            if text:
                spans.append((colour, bold, text))
            continue
        for number in (int(it or 0) for it in sequence[1].split(";")):
            if number == 0:
                colour, bold = None, False
            elif number == 1:
                bold = True
            elif number in COLOURS:
                colour = COLOURS[number]
    return spans


def wrapped(spans):
    """A line as the rows that it takes on the terminal."""
    rows, room = [[]], COLUMNS
    for colour, bold, text in spans:
        while len(text) > room:
            rows[-1].append((colour, bold, text[:room]))
            text, room = text[room:], COLUMNS
            rows.append([])
        rows[-1].append((colour, bold, text))
        room -= len(text)
    return rows


def svg(steps):
    """The session as a picture in which one line after the other appears. The first command and its answer are there at once."""
    rows, moment, first = [], 0.0, None
    for command, comment, printed in steps:
        typed = [(PROMPT, True, "$ "), (COMMAND, True, command)] if command else []
        said = [(COLOURS[90], False, ("   " if command else "") + f"# {comment}")] if comment else []
        rows.append((moment, typed + said))
        moment += 1.1
        for line in printed.split("\n") if printed else []:
            rows += [(moment, row) for row in wrapped(coloured(line))]
            moment += 0.12
        rows.append((moment, []))
        first = moment if first is None else first
        moment += 1.2
    last = max(appears for appears, spans in rows if spans)
    rows = [(max(0.0, (appears - first) / (last - first) * LAST), spans) for appears, spans in rows]
    width, height = round(COLUMNS * WIDTH + 40), (len(rows) - 1) * LINE + 64
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="A terminal session with Drawgate">',
        "<style>text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:%dpx;white-space:pre}" % SIZE,
        ".l{opacity:0;animation:a .01s forwards}@keyframes a{to{opacity:1}}@media (prefers-reduced-motion){.l{opacity:1;animation:none}}</style>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        *(f'<circle cx="{22 + 18 * index}" cy="20" r="5.5" fill="{colour}"/>' for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
    ]
    for index, (appears, spans) in enumerate(rows):
        if not spans:
            continue
        weight = {True: ' font-weight="bold"', False: ""}
        parts = "".join(
            f'<tspan fill="{colour or TEXT}"{weight[bold]}>{html.escape(text, quote=False)}</tspan>' for colour, bold, text in spans
        )
        later = f' class="l" style="animation-delay:{appears:.2f}s"' if appears else ""
        out.append(f'<text xml:space="preserve"{later} x="20" y="{52 + index * LINE}">{parts}</text>')
    return "\n".join([*out, "</svg>", ""])


def screenshot(home, target):
    """The page of an approval, after its reader has given the token."""
    call = home.start("drawgate tools call vfs_delete path=invoices/2026-11.csv")
    identity = home.approval()
    page = next(it for it in home.json("drawgate approvals list") if it["id"] == identity)["page"]
    token = (home.folder / ".local/share/drawgate/admin.token").read_text().strip()
    body = urllib.parse.urlencode({"token": token}).encode()
    request = urllib.request.Request(page, data=body, headers={"Origin": GATEWAY})
    shown = home.folder / "page.html"
    shown.write_bytes(urllib.request.urlopen(request).read())
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    place = [f"--user-data-dir={home.folder}/browser", "--window-size=800,640", "--hide-scrollbars", f"--screenshot={target}"]
    subprocess.run(["chromium", *options, *place, shown.as_uri()], check=True, capture_output=True, env=home.env)
    home.at_terminal(f"drawgate approvals deny {identity}")
    call.wait()


def main():
    in_own_network()
    program = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "target/debug/drawgate").resolve()
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    home = Home(program)
    try:
        (target / "session.svg").write_text(svg(session(home)))
        screenshot(home, target / "approval.png")
    finally:
        home.end()


main()
