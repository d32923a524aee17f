"""The API that `spec/notes.json` describes, on 127.0.0.1:8087, with notes in memory."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NOTES = {1: {"id": 1, "title": "Welcome", "text": "Notes live in memory.", "tags": ["demo"]}}


class Api(BaseHTTPRequestHandler):
    def answer(self, status, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def note(self):
        found = re.fullmatch(r"/notes/([0-9]{1,9})", urlsplit(self.path).path)
        note = NOTES.get(int(found[1])) if found else None
        if note is None:
            self.answer(404, {"error": "there is no such note"})
        return note

    def do_GET(self):
        parts = urlsplit(self.path)
        if parts.path != "/notes":
            note = self.note()
            return note and self.answer(200, note)
        query = parse_qs(parts.query)
        words, tags = query.get("q", [""])[0].lower(), query.get("tag", [])
        fits = [
            note
            for note in NOTES.values()
            if words in (note["title"] + " " + note["text"]).lower()
            and all(tag in note["tags"] for tag in tags)
        ]
        self.answer(200, {"notes": fits})

    def do_POST(self):
        new = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not new.get("title"):
            return self.answer(400, {"error": "`title` is missing"})
        number = max(NOTES, default=0) + 1
        tags = new.get("tags", [])
        NOTES[number] = {"id": number, "title": new["title"], "text": new.get("text", ""), "tags": tags}
        self.answer(201, NOTES[number])

    def do_DELETE(self):
        note = self.note()
        if note:
            del NOTES[note["id"]]
            self.answer(204)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8087), Api).serve_forever()
