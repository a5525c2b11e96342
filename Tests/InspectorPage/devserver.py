"""Serves the inspector's files as a node does, and passes everything else on to a node.

    devserver.py PORT NODE-URL

For work on the page without building the program, and for programs that do not serve it yet.
"""

import hashlib
import http.client
import pathlib
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = next(ROOT.glob("Sources/**/app.js")).parent
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    node = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/":
            self.send_file(FILES / "index.html")
        elif path.startswith("/inspector/") and "/" not in path[11:]:
            self.send_file(FILES / path[11:])
        else:
            self.pass_on()

    do_HEAD = do_POST = do_PUT = do_DELETE = lambda self: self.pass_on()

    def send_file(self, file):
        if not file.is_file() or file.suffix not in TYPES:
            self.answer(404, {"Content-Type": "text/plain"}, b"no such file\n")
            return
        data = file.read_bytes()
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        headers = {"Content-Type": TYPES[file.suffix], "Content-Security-Policy": POLICY,
                   "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
                   "Cache-Control": "no-cache", "ETag": tag}
        if self.headers.get("If-None-Match") == tag:
            self.answer(304, headers, b"")
        else:
            self.answer(200, headers, data)

    def answer(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        kept = ("authorization", "content-type", "accept", "last-event-id")
        headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
        onward = http.client.HTTPConnection(self.node.hostname, self.node.port, timeout=60)
        try:
            onward.request(self.command, self.path, body, headers)
            answer = onward.getresponse()
        except OSError:
            self.close_connection = True
            self.answer(502, {"Content-Type": "text/plain"}, b"the node does not answer\n")
            return
        try:
            self.copy(answer)
        except OSError:
            self.close_connection = True
        finally:
            onward.close()

    def copy(self, answer):
        """Passes an answer on as it comes, so that events are not kept back."""
        length = answer.getheader("Content-Length")
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", length)
        self.end_headers()
        while data := answer.read1(65536):
            self.wfile.write(data)
            self.wfile.flush()


def serve(port, node, base=Handler):
    """Starts a server on a thread of its own, and gives it."""
    handler = type("NodeHandler", (base,), {"node": urllib.parse.urlsplit(node)})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    serve(int(sys.argv[1]), sys.argv[2])
    print(f"http://127.0.0.1:{sys.argv[1]}/ shows {sys.argv[2]}", flush=True)
    threading.Event().wait()
