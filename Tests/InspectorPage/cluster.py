"""Three real nodes on loopback whose links are relays, so that a test can cut them apart."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from relay import Relay

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
READ_TOKEN = "read-token-of-the-tests"
WRITE_TOKEN = "write-token-of-the-tests"


def program():
    """The built program, or None."""
    named = os.environ.get("TRIBUTARY")
    for path in [named] if named else [ROOT / ".build/debug/tributary", ROOT / ".build/release/tributary"]:
        if shutil.which(str(path)):
            return str(path)
    return None


def free_ports(count):
    """Ports that nothing listens on now, below the range of outgoing connections."""
    ports, first = [], 20000 + os.getpid() % 10000
    for port in range(first, 32000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError("no free ports on loopback")


class Answer(Exception):
    """An answer of a node that is not 2xx."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Node:
    def __init__(self, number, folder, port, has_tokens):
        self.number = number
        self.folder = folder
        self.port = port
        self.has_tokens = has_tokens
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, binary):
        log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [binary, "serve", "--config", str(self.folder / "node.yaml")],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
        self.process = None

    def ask(self, method, path, body=None, timeout=15):
        headers = {"Content-Type": "application/json"}
        if self.has_tokens:
            headers["Authorization"] = f"Bearer {WRITE_TOKEN}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Answer(error.code, error.read().decode(errors="replace")) from None

    def save(self, *operations, author=None, context=None, **options):
        body = {"operations": list(operations), **options}
        if author:
            body["author"] = author
        if context:
            body["context"] = context
        return self.ask("POST", "/v1/save", body)

    def insert(self, entity, values, author=None, **more):
        answer = self.save({"insert": entity, "id": "@new", "values": values, **more}, author=author)
        return answer["ids"]["@new"]

    def update(self, uri, values, author=None, context=None):
        return self.save({"update": uri, "values": values}, author=author, context=context)

    def status(self):
        return self.ask("GET", "/v1/status")

    def conflicts(self, state="unresolved"):
        return self.ask("GET", f"/v1/conflicts?state={state}&limit=10000")["conflicts"]

    def value(self, uri, name):
        entity, decimal = uri.split("/")[-2:]
        return self.ask("GET", f"/v1/objects/{entity}/{decimal}")["values"][name]


def wait_until(what, condition, seconds=20, every=0.1):
    """Waits until the condition gives something true, and gives that."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
            error = None
        except (OSError, Answer, ValueError, KeyError) as caught:
            found, error = None, caught
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what}" + (f" ({error})" if error else ""))
        time.sleep(every)


class Cluster:
    """Nodes 1 and 2 take everything, node 3 wants tokens."""

    def __init__(self, binary, model=HERE / "model.json"):
        self.binary = binary
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="inspector-page-"))
        ports = iter(free_ports(9 + 12))
        own = {n: (next(ports), next(ports), next(ports)) for n in (1, 2, 3)}
        self.relays = {}
        peers = {}
        for here in own:
            for there in own:
                if here != there:
                    pair = [Relay(next(ports), own[there][place]) for place in (1, 2)]
                    self.relays[here, there] = pair
                    peers.setdefault(here, []).append((there, *[one.port for one in pair]))
        self.nodes = {}
        for number, (http, publish, exchange) in own.items():
            folder = self.folder / f"n{number}"
            folder.mkdir()
            shutil.copy(model, folder / "model.json")
            lines = ["cluster: contacts", f"node: {number}", "store: store.sqlite", "model: model.json",
                     "http:", f"  listen: 127.0.0.1:{http}"]
            if number == 3:
                lines.append("  tokens:")
                for scope, token in (("read", READ_TOKEN), ("write", WRITE_TOKEN)):
                    file = folder / f"{scope}.token"
                    file.write_text(token)
                    file.chmod(0o600)
                    lines.append(f"    - {{file: {scope}.token, scope: {scope}}}")
            lines += ["mesh:", f"  publish: tcp://127.0.0.1:{publish}",
                      f"  exchange: tcp://127.0.0.1:{exchange}", "  peers:"]
            for there, to_publish, to_exchange in peers[number]:
                lines.append(f"    - {{node: {there}, publish: \"tcp://127.0.0.1:{to_publish}\", "
                             f"exchange: \"tcp://127.0.0.1:{to_exchange}\"}}")
            (folder / "node.yaml").write_text("\n".join(lines) + "\n")
            self.nodes[number] = Node(number, folder, http, has_tokens=number == 3)

    def __getitem__(self, number):
        return self.nodes[number]

    def start(self):
        for node in self.nodes.values():
            node.start(self.binary)
        self.wait_connected()

    def wait_connected(self):
        for node in self.nodes.values():
            wait_until(f"node {node.number} hears both others",
                       lambda: sum(peer["connected"] for peer in node.status()["peers"]) == 2, 30)

    def cut(self, number, wait=True):
        """Cuts a node off from both others, in both directions."""
        for (here, there), pair in self.relays.items():
            if number in (here, there):
                for one in pair:
                    one.cut()
        if wait:
            node = self.nodes[number]
            wait_until(f"node {number} hears nobody",
                       lambda: not any(peer["connected"] for peer in node.status()["peers"]), 30)

    def heal(self, wait=True):
        for pair in self.relays.values():
            for one in pair:
                one.heal()
        if wait:
            self.wait_connected()
            self.wait_equal()

    def wait_equal(self):
        wait_until("the nodes show the same",
                   lambda: len({node.status()["digest"] for node in self.nodes.values()}) == 1, 30)

    def stop(self):
        for node in self.nodes.values():
            node.stop()
        for pair in self.relays.values():
            for one in pair:
                one.cut()
        shutil.rmtree(self.folder, ignore_errors=True)
