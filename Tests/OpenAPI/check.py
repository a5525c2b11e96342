#!/usr/bin/env python3
"""Checks docs/openapi.json: that it is valid, and that real nodes do what it says.

    Tests/OpenAPI/check.py [--requests N] [--seconds S] [--seed N] [--only OPERATION,...] [--keep]

First come requests written by hand, then about N (20,000) that schemathesis makes, within S (600) seconds. TRIBUTARY
names the program, by default that of .build. --keep leaves the folder with all that was sent and answered.
Where schemathesis or the program cannot be had, it says so and ends with 0.
"""

import argparse
import collections
import copy
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DESCRIPTION = ROOT / "docs/openapi.json"
TOKENS = {"read": "read-token-of-the-tests", "write": "write-token-of-the-tests", "admin": "admin-token-of-the-tests"}
SCOPES = ["read", "write", "admin"]


def skip(why):
    print(f"skipped: the description of the interface was not tested, because {why}")
    sys.exit(0)


def with_schemathesis():
    """Goes on in a Python that has schemathesis: this one, one beside the sources, or that of the command."""
    try:
        import schemathesis  # noqa: F401
        return
    except ImportError:
        if os.environ.get("OPENAPI_CHECK_AGAIN"):
            skip("schemathesis cannot be imported")
    candidates = [ROOT / ".build/openapi-venv/bin/python"]
    command = shutil.which("schemathesis")
    if command:
        first = pathlib.Path(command).read_bytes().split(b"\n")[0]
        if first.startswith(b"#!") and b"python" in first:
            candidates.append(pathlib.Path(first[2:].decode().split()[0]))
    for python in candidates:
        if python.exists():
            os.execve(python, [str(python), __file__, *sys.argv[1:]], {**os.environ, "OPENAPI_CHECK_AGAIN": "1"})
    skip("schemathesis is missing: python3 -m venv .build/openapi-venv && "
         ".build/openapi-venv/bin/pip install schemathesis openapi-spec-validator")


def program():
    named = os.environ.get("TRIBUTARY")
    for path in [named] if named else [ROOT / ".build/debug/tributary", ROOT / ".build/release/tributary"]:
        if shutil.which(str(path)):
            return str(path)
    return None


def every_port():
    """Ports that nothing listens on now, below the range of outgoing connections, each once."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


PORTS = every_port()


# MARK: Nodes

class Node:
    """A process with a folder of its own."""

    def __init__(self, binary, folder, tokens=False, mesh=False):
        self.binary, self.folder, self.tokens = binary, folder, tokens
        folder.mkdir()
        shutil.copy(HERE / "model.json", folder / "model.json")
        self.port, publish, exchange = next(PORTS), next(PORTS), next(PORTS)
        lines = ["cluster: shop", "node: 1", "store: store.sqlite", "model: model.json", "http:",
                 f"  listen: 127.0.0.1:{self.port}", "  maxBodyBytes: 262144"]
        if tokens:
            lines.append("  tokens:")
            for scope, token in TOKENS.items():
                (folder / f"{scope}.token").write_text(token)
                (folder / f"{scope}.token").chmod(0o600)
                lines.append(f"    - {{file: {scope}.token, scope: {scope}}}")
        if mesh:
            lines += ["mesh:", f"  publish: tcp://127.0.0.1:{publish}", f"  exchange: tcp://127.0.0.1:{exchange}"]
        (folder / "node.yaml").write_text("\n".join(lines) + "\n")
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--config", str(self.folder / "node.yaml")],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                if self.ask("GET", "/readyz").status == 200:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError("a node does not start:\n" + (self.folder / "log").read_text()[-2000:])

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        self.process = None

    def ask(self, method, target, body=None, headers=None, token="admin", timeout=20):
        """One request; a body that is no bytes is sent as JSON."""
        fields = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        if self.tokens and token:
            fields.setdefault("Authorization", f"Bearer {TOKENS.get(token, token)}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, target, body, fields)
            answer = connection.getresponse()
            # What never ends is left after a while, with what came until then.
            end, answer.content = time.monotonic() + timeout, b""
            while time.monotonic() < end:
                part = answer.read1(1 << 16)
                if not part:
                    break
                answer.content += part
            return answer
        finally:
            connection.close()

    def json(self, method, target, body=None):
        answer = self.ask(method, target, body)
        if answer.status >= 400:
            raise RuntimeError(f"{method} {target}: {answer.status} {answer.content!r}")
        return json.loads(answer.content)


class World:
    """What is in a node: enough of each kind that requests find something."""

    def __init__(self, node):
        self.node = node
        operations = [{"insert": "Shop", "id": f"@s{i}", "values": {"name": f"Shop {i}", "turnover": "12.50"}}
                      for i in range(4)]
        for i in range(24):
            operations.append({"insert": "Contact" if i % 4 else "Supplier", "id": f"@c{i}", "values": {
                "name": f"Name {i}", "email": f"n{i}@example.com", "age": i, "points": i * 3, "shop": f"@s{i % 4}",
                "photo": "AAEC" if i % 2 else None, "notes": "a" * i}})
        operations += [{"insert": "Tag", "id": f"@t{i}", "values": {"label": f"tag {i}"},
                        "add": {"contacts": [f"@c{i}", f"@c{i + 1}"]}} for i in range(4)]
        operations += [{"insert": "Invoice", "id": f"@i{i}", "values": {
            "number": str(i), "amount": "3.10", "paid": False, "due": "2026-01-31T12:00:00.000Z"}} for i in range(4)]
        first = self.save(operations, saveID="first", author="import", context="nightly", note="to begin with")
        self.objects = list(first["ids"].values())
        contact = first["ids"]["@c1"]
        old = self.version(contact)
        self.transactions, self.tokens = [first["transaction"]], [first["token"]]
        for i in range(6):
            saved = self.save([{"update": contact, "values": {"name": f"Name {i}", "age": 40 + i}}],
                              saveID=f"again-{i}", author="clerk", context="desk")
            self.transactions.append(saved["transaction"])
            self.tokens.append(saved["token"])
        # What a policy of a save gives up is a conflict, so one node alone has some.
        for i, policy in enumerate(("mergeByPropertyStoreTrump", "mergeByPropertyObjectTrump", "rollback")):
            self.save([{"update": contact, "values": {"name": f"Other {i}", "notes": str(i)}, "version": old}],
                      mergePolicy=policy, author="late")
        gone = first["ids"]["@i3"]
        self.save([{"delete": gone}], author="clerk")
        self.pin = node.json("POST", "/v1/generations", {"leaseSeconds": 3600})["token"]
        self.version_of_contact = self.version(contact)
        node.json("PUT", "/v1/consumers/reader", {"token": self.tokens[0]})
        conflicts = node.json("GET", "/v1/conflicts?state=all")["conflicts"]
        self.conflicts = [one["id"] for one in conflicts] + [one["short"] for one in conflicts]

    def save(self, operations, **more):
        return self.node.json("POST", "/v1/save", {"operations": operations, **more})

    def version(self, uri):
        return self.node.json("GET", "/v1/objects/" + "/".join(uri.split("/")[-2:]))["version"]


# MARK: The description

class Described:
    def __init__(self, text):
        self.document = json.loads(text)
        self.operations = {operation["operationId"]: (method.upper(), path, operation)
                           for path, item in self.document["paths"].items() for method, operation in item.items()}

    def complaint(self, name, answer):
        """What the description does not say about an answer, or None."""
        from rules import answer_complaint
        kind = (answer.getheader("Content-Type") or "").split(";")[0]
        return answer_complaint(self.document, self.operations[name][2], answer.status, kind, answer.content)

    def for_fuzzing(self, world, backups):
        """The same, with what is in the node among the values that are drawn, and what only reads first."""
        document = copy.deepcopy(self.document)
        schemas = document["components"]["schemas"]

        def draw(name, *values):
            schemas[name] = {"enum": list(dict.fromkeys(values))}

        # Nearly all of these exist, so that most requests get further than to a name that is unknown.
        entities = ["Contact", "Supplier", "Shop", "Tag", "Invoice"]
        draw("EntityName", *entities, "Contact", "Persn")
        draw("PropertyName", "name", "age", "shop", "tags", "email", "number", "label", "nme")
        short = ["/".join(uri.split("/")[-2:]) for uri in world.objects]
        draw("ObjectName", *world.objects, *short, "Contact/p1")
        draw("ObjectNumber", *[name.split("/")[1] for name in short], "p1")
        draw("Reference", *world.objects, *short, "@a", "@b", "Contact/p1", "x")
        draw("Token", *world.tokens, world.pin, "hBsePcDFm70GbQMCgwEbawxWmKql4y4C")
        draw("Dot", *world.transactions, "9.1-1")
        draw("TransactionName", *world.transactions, "1-3", "1-1", "x")
        draw("Version", world.version_of_contact, world.transactions[0], "x")
        draw("SaveID", "first", "again-1", "again-2", "other", "first#0")
        schemas["SaveName"] = {"enum": ["first", "again-1", "again-3", "nobody", *world.transactions, "1-2"]}
        draw("ConflictName", *world.conflicts, "Contact.p1.name", "ffff")
        draw("MergePolicy", "error", "errorByRow", "mergeByPropertyStoreTrump", "mergeByPropertyObjectTrump", "rollback",
             "overwrite", "none")
        draw("Predicate", "name BEGINSWITH 'N'", "age > 3 AND shop.name != 'x'", "$n < age", "name ==", "SUBQUERY(",
             "author == 'clerk'", "ANY changes.changeType == 'delete'", "tags.@count > 0", "SELF IN $n", "label == 'a'")
        draw("PointText", *world.tokens, "2026-01-31T12:00:00Z", "2100-01-01T00:00:00Z", "{}", "{\"1.1\": 1}", "x")
        schemas["Point"] = {"anyOf": [{"$ref": "#/components/schemas/PointText"}, {"const": {}}]}
        schemas["Values"] = {"anyOf": [
            {"type": "object", "additionalProperties": False, "properties": {
                "name": {"type": "string"}, "age": {"type": ["integer", "null"]}, "email": {"type": ["string", "null"]},
                "notes": {"type": ["string", "null"]}, "shop": {"anyOf": [{"$ref": "#/components/schemas/Reference"},
                                                                          {"type": "null"}]},
                "photo": {"enum": ["AAEC", "", "?"]}, "points": {"type": "number"}}},
            {"type": "object", "additionalProperties": False, "properties": {"label": {"type": ["string", "null"]}}},
            {"type": "object", "additionalProperties": {}}]}
        # Key paths of sorting, grouping and fetching ahead.
        paths = {"enum": ["name", "-age", "shop.name", "shop", "tags", "label", "nme", ""]}
        fetch, delete = schemas["FetchRequest"]["properties"], schemas["BatchRequest"]["properties"]["delete"]
        for holder, key in ((fetch, "sort"), (fetch, "groupBy"), (fetch, "prefetch")):
            holder[key]["items"] = paths
        for one in delete.get("anyOf", [delete])[0]["oneOf"]:
            if "sort" in one["properties"]:
                one["properties"]["sort"]["items"] = paths
        file = document["paths"]["/inspector/{file}"]["get"]["parameters"][0]
        file["schema"] = {"enum": ["index.html", "app.js", "style.css", "icon.svg", "none.js"]}
        # Nobody waits long for what never comes.
        schemas["TimeoutSeconds"] = {"type": "number", "minimum": 0, "maximum": 0.2}
        lease = schemas["PinRequest"]["properties"]["leaseSeconds"]
        lease.update(maximum=2, default=1)
        schemas["BackupRequest"]["properties"]["path"] = {"enum": [f"{backups}/{i}.sqlite" for i in range(20)]}
        # The model's own order stays otherwise: what deletes comes last, so that the rest finds something.
        last = ["/v1/batch", "/v1/save", "/v1/history", "/v1/consumers/{name}", "/v1/saves/{saveID}/undo"]
        paths = document["paths"]
        document["paths"] = {path: paths[path] for path in [*(p for p in paths if p not in last), *last]}
        return document


# MARK: Requests written by hand

class Report:
    def __init__(self):
        self.complaints = []
        self.probes = 0

    def add(self, what, request, answer=None):
        text = f"{what}\n      request: {request}"
        if answer is not None:
            text += f"\n      answer:  {answer.status} {answer.content[:300]!r}"
        if text not in self.complaints:
            self.complaints.append(text)


class Probes:
    """Requests that schemathesis would hardly make, each with the status that it must have."""

    def __init__(self, described, report, binary, folder):
        self.described, self.report = described, report
        self.open = Node(binary, folder / "open")
        self.guarded = Node(binary, folder / "guarded", tokens=True, mesh=True)
        self.folder = folder

    def expect(self, node, status, name, target, body=None, headers=None, method=None, **more):
        method = method or self.described.operations[name][0]
        request = f"{method} {target} {headers or ''} {body if isinstance(body, dict) else str(body)[:80]}"
        try:
            answer = node.ask(method, target, body, headers, **more)
        except OSError as error:
            self.report.add(f"{name}: no answer ({error!r})", request)
            return None
        self.report.probes += 1
        if answer.status != status:
            self.report.add(f"{name}: expected {status}", request, answer)
        complaint = None if method == "HEAD" else self.described.complaint(name, answer)
        if complaint:
            self.report.add(complaint, request, answer)
        return answer

    def run(self):
        self.open.start()
        self.guarded.start()
        self.world = World(self.open)
        World(self.guarded)
        for part in (self.description, self.messages, self.methods, self.scopes, self.requests, self.streams,
                     self.members):
            part()

    def description(self):
        """The node answers this very file."""
        answer = self.open.ask("GET", "/openapi.json")
        self.report.probes += 1
        if answer.status != 200 or answer.content != DESCRIPTION.read_bytes():
            self.report.add("The node does not answer docs/openapi.json", "GET /openapi.json", answer)

    def messages(self):
        """What any request may get."""
        node, big = self.open, b" " * 300_000
        for name, (method, path, operation) in self.described.operations.items():
            if name == "getDescription":
                continue
            target = self.target(path)
            body = {} if method in ("POST", "PUT") else None
            self.expect(node, 421, name, target, body, {"Host": "example.com"})
            self.expect(node, 403, name, target, body, {"Origin": "https://example.com"})
            self.expect(node, 413, name, target, big, {"Content-Type": "application/json"})
            self.expect(node, 415, name, target, b"a=1", {"Content-Type": "text/plain"})
            self.expect(node, 415, name, target, b"{}", {"Content-Type": "application/json",
                                                        "Content-Encoding": "gzip"})
            self.expect(node, 400, name, target + "?a=%ff", body)
            if "406" in operation["responses"]:
                self.expect(node, 406, name, target, body, {"Accept": "application/cbor"})
            else:
                self.expect(node, 400, name, target, b"\xff", {"Content-Type": "application/cbor",
                                                              "Accept": "application/cbor"})
            if operation.get("x-tributary-parameters") == "any":
                self.expect(node, 200, name, target + "?other=1")
            else:
                self.expect(node, 400, name, target + "?other=1", body)
            if method in ("POST", "PUT"):
                self.expect(node, 400, name, target, {"nonsense": 1})
                self.expect(node, 400, name, target, b"{", {"Content-Type": "application/json"})

    def target(self, path):
        uri = self.world.objects[4]
        values = {"entity": "Contact", "name": "reader", "saveID": "first", "token": self.world.tokens[0], "node": "2",
                  "transaction": self.world.transactions[0], "file": "app.js",
                  "id": uri.split("/")[-1] if "/objects/" in path else self.world.conflicts[0]}
        for name, value in values.items():
            path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
        return path

    def methods(self):
        """An address takes exactly the methods that it has in the description."""
        for path, item in self.described.document["paths"].items():
            if path == "/openapi.json":
                continue
            has = {method.upper() for method in item}
            allow = has | {"OPTIONS"} | ({"HEAD"} if "GET" in has else set())
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "TRACE"} - has:
                answer = self.open.ask(method, self.target(path))
                self.report.probes += 1
                told = {one.strip() for one in (answer.getheader("Allow") or "").split(",")}
                if answer.status != 405 or told != allow:
                    self.report.add(f"expected 405 with {sorted(allow)}, not {sorted(told)}",
                                    f"{method} {self.target(path)}", answer)
            answer = self.open.ask("OPTIONS", self.target(path))
            self.report.probes += 1
            told = {one.strip() for one in (answer.getheader("Allow") or "").split(",")}
            if answer.status != 204 or told != allow:
                self.report.add(f"expected 204 with {sorted(allow)}, not {sorted(told)}",
                                f"OPTIONS {self.target(path)}", answer)

    def scopes(self):
        """Each operation asks for the scope that it has in the description."""
        for name, (method, path, operation) in self.described.operations.items():
            if name in ("getDescription", "followChanges"):
                continue
            needed, target = operation["x-tributary-scope"], self.target(path)
            body = {"nonsense": 1} if method in ("POST", "PUT") else None
            # Whatever is done needs no token, or is refused for what it says.
            target += "?nonsense=1"
            if needed == "none":
                answer = self.guarded.ask(method, target, token=None)
                self.report.probes += 1
                if answer.status in (401, 403):
                    self.report.add(f"{name} needs a token", f"{method} {target}", answer)
                continue
            self.expect(self.guarded, 401, name, target, body, token=None)
            self.expect(self.guarded, 401, name, target, body, token="an-unknown-token-of-nobody")
            for scope in SCOPES:
                answer = self.guarded.ask(method, target, body, token=scope)
                self.report.probes += 1
                refused = SCOPES.index(scope) < SCOPES.index(needed)
                if (answer.status == 403) != refused or answer.status == 401:
                    self.report.add(f"{name} needs {needed}; with {scope}:", f"{method} {target}", answer)
                complaint = self.described.complaint(name, answer)
                if complaint:
                    self.report.add(complaint, f"{method} {target}", answer)

    def requests(self):
        """Statuses that random requests seldom reach, and answers of every form."""
        node, world = self.open, self.world
        contact = world.objects[5]
        objects = f"/v1/objects/{contact.split('/')[-2]}/{contact.split('/')[-1]}"
        expect = self.expect
        for name, (method, path, _) in self.described.operations.items():
            if method == "GET" and name not in ("followChanges", "getDescription", "getOrphan", "diff"):
                expect(node, 200, name, self.target(path))
                expect(node, 200, name, self.target(path), method="HEAD")
        known = node.ask("GET", "/").getheader("ETag")
        expect(node, 304, "getInspector", "/", headers={"If-None-Match": known})
        expect(node, 404, "getInspectorFile", "/inspector/none.js")
        fetch = {"entity": "Contact"}
        for accept in ("application/json", "application/cbor", "application/x-ndjson"):
            for kind in ("objects", "ids", "dictionary", "count"):
                body = {**fetch, "resultType": kind}
                if kind == "dictionary":
                    body["properties"] = ["name", {"name": "n", "function": "count", "keyPath": "age"}]
                    body["groupBy"] = ["name"]
                expect(node, 200, "fetch", "/v1/fetch", body, {"Accept": accept})
        expect(node, 200, "fetch", "/v1/fetch", {**fetch, "versions": True, "prefetch": ["shop", "tags"]})
        expect(node, 200, "fetch", "/v1/fetch", {**fetch, "at": world.tokens[0], "versions": True})
        expect(node, 200, "getObject", objects + "?versions=true&at=" + world.tokens[0])
        expect(node, 400, "fetch", "/v1/fetch", {**fetch, "predicate": "name =="})
        expect(node, 400, "fetch", "/v1/fetch", {**fetch, "predicate": "name =="}, {"Accept": "application/cbor"})
        expect(node, 410, "fetch", "/v1/fetch", {**fetch, "generation": world.tokens[0]})
        expect(node, 410, "releaseGeneration", "/v1/generations/" + world.tokens[0])
        expect(node, 404, "getObject", "/v1/objects/Contact/p1")
        expect(node, 404, "blame", "/v1/objects/Contact/p1/blame")
        expect(node, 404, "getLog", "/v1/objects/Contact/p1/log")
        expect(node, 200, "blame", objects + "/blame?property=name&lookback=5")
        expect(node, 400, "blame", objects + "/blame?property=nme")
        expect(node, 200, "diff", "/v1/diff?from=2020-01-01T00:00:00Z&limit=3")
        expect(node, 200, "getHistory", "/v1/history?order=newest&limit=2")
        expect(node, 200, "getHistory", "/v1/history?" + urllib.parse.urlencode(
            {"where": "ANY changes.changeType == 'delete'"}))
        expect(node, 404, "getOrphan", "/v1/orphans/" + world.transactions[0])
        expect(node, 404, "discardOrphan", "/v1/orphans/" + world.transactions[0])
        expect(node, 404, "getConflict", "/v1/conflicts/Contact.p1.name")
        expect(node, 404, "getConsumer", "/v1/consumers/nobody")
        expect(node, 400, "putConsumer", "/v1/consumers/%20", {})
        expect(node, 200, "tryPolicy", "/v1/policies/try", {"entity": "Contact", "policy": "overwrite"})
        expect(node, 200, "resolveConflicts", "/v1/conflicts/resolution", {"policy": "overwrite", "dryRun": True})
        expect(node, 200, "resolveConflicts", "/v1/conflicts/resolution", {"policy": "overwrite", "state": "all"})
        # Saves.
        def save(status, *operations, headers=None, **more):
            return expect(node, status, "save", "/v1/save", {"operations": list(operations), **more}, headers)
        save(200)
        save(200, {"update": contact, "increment": {"points": 1}})
        save(200, {"update": contact, "increment": {"points": 1}}, headers={"Accept": "application/cbor"})
        save(409, {"update": contact, "values": {"name": "x"}, "version": world.transactions[0]})
        save(409, {"update": contact, "values": {"name": "x"}, "version": world.transactions[0]},
             headers={"Accept": "application/cbor"})
        save(409, {"update": contact, "if": "age > 1000"})
        save(409, {"insert": "Contact", "values": {"email": "n1@example.com"}})
        save(409, {"insert": "Tag"}, saveID="first")
        save(404, {"update": "Contact/p1", "values": {"name": "x"}})
        save(422, {"update": contact, "values": {"age": "x"}})
        save(422, {"update": contact, "values": {"age": 151}})
        save(422, {"insert": "Tag"}, acknowledgement=3)
        save(400, {"update": contact, "if": "age >"})
        save(400, *[{"insert": "Tag"}] * 1, nonsense=1)
        # What is wrong is refused also where nothing would be done with it.
        expect(node, 400, "undoSave", "/v1/saves/again-2/undo", {"dryRun": True, "bulk": "x"})
        expect(node, 400, "undoSave", "/v1/saves/again-2/undo", {"dryRun": True, "author": 1})
        expect(node, 400, "resolveConflicts", "/v1/conflicts/resolution", {"policy": "overwrite", "note": ""})
        expect(node, 400, "batch", "/v1/batch", {
            "delete": {"entity": "Invoice", "substitutions": {"n": 1}}, "dryRun": True})
        expect(node, 400, "batch", "/v1/batch", {
            "insert": {"entity": "Tag", "objects": []}, "saveID": "x" * 181, "dryRun": True})
        # An undo has no save ID: asked for again it has nothing left to do.
        expect(node, 400, "undoSave", "/v1/saves/again-2/undo", {"saveID": "again-3"})
        # The place of what is wrong is told of every predicate.
        expect(node, 400, "fetch", "/v1/fetch", {**fetch, "predicate": "nme == 1"})
        # A null field counts as absent, as everywhere.
        save(200, {"insert": "Tag", "update": None, "values": None, "id": None})
        big = {"operations": [{"insert": "Tag"}] * 10_000}
        expect(node, 200, "save", "/v1/save", big)
        for body in ({"insert": {"entity": "Tag", "objects": [{"label": "b"}]}},
                     {"update": {"entity": "Tag", "values": {"label": "c"}, "predicate": "label == 'b'"}},
                     {"delete": {"entity": "Tag", "predicate": "label == NULL", "limit": 5}}):
            expect(node, 200, "batch", "/v1/batch", {**body, "resultType": "ids"})
            expect(node, 200, "batch", "/v1/batch", {**body, "dryRun": True})
            expect(node, 200, "batch", "/v1/batch", body, {"Accept": "application/x-ndjson"})
        expect(node, 422, "batch", "/v1/batch", {"insert": {"entity": "Contact", "objects": [{"age": "x"}]}})
        expect(node, 200, "undoSave", "/v1/saves/again-2/undo", {"dryRun": True})
        expect(node, 200, "undoSave", "/v1/saves/again-5/undo", {"force": True})
        expect(node, 404, "undoSave", "/v1/saves/nobody/undo")
        path = str(self.folder / "backup.sqlite")
        expect(node, 200, "backUp", "/v1/backup", {"path": path})
        expect(node, 409, "backUp", "/v1/backup", {"path": path})
        expect(node, 400, "backUp", "/v1/backup", {"path": str(self.folder / "none/backup.sqlite")})
        node.json("PUT", "/v1/consumers/reader")
        expect(node, 200, "purgeHistory", "/v1/history?before=" + world.tokens[3])
        expect(node, 410, "getHistory", "/v1/history?after=" + world.tokens[0])
        expect(node, 410, "diff", "/v1/diff?from=" + world.tokens[0])
        expect(node, 410, "fetch", "/v1/fetch", {**fetch, "at": world.tokens[1]})

    def streams(self):
        """GET /v1/changes never ends, so each of its answers is read for a while, and then left."""
        node, name = self.open, "followChanges"
        from rules import schema_complaint
        for query in ("after=x", "node=x", "where=author+%3D%3D", "entity=Persn", "object=x", "limit=1", "property=nme"):
            self.expect(node, 400, name, f"/v1/changes?{query}")
        self.expect(node, 400, name, "/v1/changes", headers={"Last-Event-ID": "x"})
        self.expect(node, 410, name, "/v1/changes?after=" + self.world.tokens[0])
        after = node.json("GET", "/v1/history?limit=1&order=newest")["token"]
        node.json("POST", "/v1/save", {"operations": [{"insert": "Shop", "values": {"name": "new"}}], "note": "why"})
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
        try:
            connection.request("GET", f"/v1/changes?after={after}")
            answer = connection.getresponse()
            end, fields = time.monotonic() + 10, {}
            while "data" not in fields and time.monotonic() < end:
                line = answer.fp.readline().decode()
                key, _, value = line.strip().partition(": ")
                if key in ("id", "event", "data"):
                    fields[key] = value
            self.report.probes += 1
            schema = self.described.operations[name][2]["responses"]["200"]["content"]["text/event-stream"]
            told = answer.getheader("Content-Type")
            complaint = f"{told} is no event stream" if told != "text/event-stream" else schema_complaint(
                self.described.document, schema["x-tributary-event"], json.loads(fields.get("data", "null")))
            if complaint or fields.get("event") != "transaction":
                self.report.add(f"{name}: {complaint} {fields}", f"GET /v1/changes?after={after}")
        except (OSError, ValueError) as error:
            self.report.add(f"{name}: {error!r}", f"GET /v1/changes?after={after}")
        finally:
            connection.close()

    def members(self):
        """On a node with a mesh these change the cluster, and it would connect to whatever address was drawn.
        So here are few, and schemathesis sends its own to a node without a mesh, which refuses them."""
        node, expect = self.guarded, self.expect
        address = {"publish": f"tcp://127.0.0.1:{next(PORTS)}", "exchange": f"tcp://127.0.0.1:{next(PORTS)}"}
        expect(node, 400, "depart", "/v1/members/1/departure", {})
        expect(node, 404, "depart", "/v1/members/9/departure", {"force": True})
        expect(node, 400, "join", "/v1/members", {"node": 2, **address, "cluster": "other"})
        expect(node, 200, "join", "/v1/members", {"node": 2, **address, "author": "admin"}, timeout=40)
        expect(node, 200, "listMembers", "/v1/members")
        expect(node, 200, "getStatus", "/v1/status")
        expect(node, 200, "verify", "/v1/verify")
        expect(node, 200, "depart", "/v1/members/2/departure", {"force": True}, timeout=40)
        expect(node, 409, "depart", "/v1/members/2/departure", {"force": True})
        expect(node, 409, "join", "/v1/members", {"node": 2, **address})
        expect(node, 200, "listMembers", "/v1/members")
        expect(node, 200, "reload", "/v1/reload")
        (node.folder / "read.token").chmod(0o644)
        expect(node, 422, "reload", "/v1/reload", {})
        (node.folder / "read.token").chmod(0o600)

    def stop(self):
        self.open.stop()
        self.guarded.stop()


# MARK: Requests that schemathesis makes

class Fuzzing:
    """Rounds of schemathesis, each against a new node with the same content."""

    # The feed never ends, and the file is compared byte for byte: both are among the requests written by hand.
    LEFT_OUT = ["followChanges", "getDescription"]
    CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
              "response_headers_conformance", "negative_data_rejection", "is_described"]
    # Refusals that are right are judged by is_described, with their codes.
    SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "501", "503", "504"]
[checks.negative_data_rejection]
expected-statuses = ["4xx", "501", "503", "504"]
"""

    def __init__(self, described, report, binary, folder, wanted):
        self.described, self.report, self.binary, self.folder = described, report, binary, folder
        self.log = folder / "requests.jsonl"
        self.log.touch()
        self.operations = [name for name in described.operations
                           if name not in self.LEFT_OUT and (not wanted or name in wanted)]
        self.node = None
        self.process = None
        self.kinds = set()

    def count(self):
        with open(self.log, "rb") as file:
            return sum(1 for _ in file)

    def run(self, requests, seconds, seed):
        end = time.monotonic() + seconds
        number = 0
        while self.count() < requests and end - time.monotonic() > 20:
            number += 1
            # The first round has boundary values as well, some 50 an operation.
            left = max(100, requests - self.count())
            examples = min(80, max(5, left // max(1, len(self.operations)) + 1))
            self.round(number, examples, "examples,coverage,fuzzing" if number % 4 == 1 else "fuzzing", seed + number,
                       end - time.monotonic())

    def round(self, number, examples, phases, seed, seconds):
        folder = self.folder / f"round{number}"
        self.node = Node(self.binary, folder).start()
        try:
            world = World(self.node)
            backups = folder / "backups"
            backups.mkdir()
            file = folder / "openapi.json"
            file.write_text(json.dumps(self.described.for_fuzzing(world, backups)))
            (folder / "schemathesis.toml").write_text(self.SETTINGS)
            environment = {
                **os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE),
                "OPENAPI_CHECK_LOG": str(self.log), "OPENAPI_CHECK_BACKUPS": str(backups),
                "OPENAPI_CHECK_DESCRIPTION": str(DESCRIPTION), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [
                sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
                "--config-file", str(folder / "schemathesis.toml"), "run", str(file), "--url", self.node.url,
                "--phases", phases, "--checks", ",".join(self.CHECKS), "--max-examples", str(examples),
                "--seed", str(seed), "--workers", "1", "--no-shrink", "--continue-on-failure", "--no-color",
                "--request-timeout", "30", "--generation-database", "none", "--suppress-health-check", "all",
                "--warnings", "off", "--output-truncate", "false", "--output-sanitize", "false",
                "--report", "ndjson", "--report-ndjson-path", str(folder / "events.ndjson")]
            for name in self.operations:
                command += ["--include-operation-id", name]
            with open(folder / "output", "wb") as output:
                self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                                stdin=subprocess.DEVNULL, cwd=folder, env=environment)
                try:
                    self.process.wait(max(20, seconds))
                except subprocess.TimeoutExpired:
                    self.process.send_signal(signal.SIGTERM)
                    try:
                        self.process.wait(10)
                    except subprocess.TimeoutExpired:
                        self.process.kill()
                        self.process.wait(5)
            self.judge(folder)
            if self.node.process.poll() is not None:
                self.report.add(f"the node ended with {self.node.process.returncode}", "see its log")
        finally:
            self.node.stop()

    def judge(self, folder):
        """Takes the failures out of what schemathesis printed."""
        text = (folder / "output").read_text(errors="replace")
        code = self.process.returncode
        if code == 0 or code == -signal.SIGTERM:
            return
        begin = text.find("= FAILURES =")
        errors = text.find("= ERRORS =")
        if begin < 0 and errors < 0:
            self.report.add(f"schemathesis ended with {code}", text[-1500:])
            return
        first = min(place for place in (begin, errors) if place >= 0)
        for part in text[first:text.find("= SUMMARY =")].split("\n___")[1:]:
            label, _, cases = part.strip("_ ").partition(" ___")
            for case in cases.split("Test Case ID: ")[1:]:
                case = case.split("\n", 1)[-1].partition("    st replay")[0].strip("- \n")
                # One of a kind is enough: what differs are numbers and what is quoted.
                kind = label + re.sub(r"\d+|\"[^\"]*\"|'[^']*'", "", case.partition("\n[")[0])
                if kind not in self.kinds:
                    self.kinds.add(kind)
                    self.report.add(f"{label}: {case[:3000]}", "above")
            if "Test Case ID: " not in cases:
                self.report.add(part[:2000].strip("_= \n"), "above")

    def table(self):
        rows = {}
        slowest = collections.Counter()
        for line in open(self.log):
            name, status, elapsed, negative, _ = json.loads(line)
            rows.setdefault(name, collections.Counter())[status] += 1
            slowest[name] = max(slowest[name], elapsed)
        for name in self.operations:
            counter = rows.get(name, collections.Counter())
            told = " ".join(f"{status}:{count}" for status, count in sorted(counter.items()))
            print(f"  {name:<20}{sum(counter.values()):>6}  {slowest[name]:>6.2f} s  {told}")

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(5)
        if self.node is not None:
            self.node.stop()


def validate(text, report):
    """Asks a validator of OpenAPI, where there is one."""
    try:
        from openapi_spec_validator import validate as check
    except ImportError:
        print("openapi-spec-validator is missing: the file was not validated")
        return
    try:
        check(json.loads(text))
        print("docs/openapi.json is valid")
    except Exception as error:  # whatever it may throw is a complaint
        report.add(f"docs/openapi.json is not valid: {error}", "openapi-spec-validator")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    with_schemathesis()
    binary = program()
    if not binary:
        skip("the program is not built: swift build --product tributary, or set TRIBUTARY")
    sys.path.insert(0, str(HERE))
    # Whoever ends the check ends the nodes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    text = DESCRIPTION.read_text()
    described, report = Described(text), Report()
    validate(text, report)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="openapi-check-"))
    probes = Probes(described, report, binary, folder)
    fuzzing = Fuzzing(described, report, binary, folder, [name for name in arguments.only.split(",") if name])
    seed = arguments.seed if arguments.seed is not None else random.randrange(1_000_000)
    try:
        probes.run()
        print(f"{report.probes} requests written by hand, {len(report.complaints)} complaints", flush=True)
        if arguments.requests > 0:
            fuzzing.run(arguments.requests, arguments.seconds - (time.monotonic() - began), seed)
            fuzzing.table()
            print(f"{fuzzing.count()} requests by schemathesis, seed {seed}")
    finally:
        fuzzing.stop()
        probes.stop()
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for complaint in report.complaints:
        print(f"FAILED  {complaint}")
    print(f"{len(report.complaints)} complaints, {time.monotonic() - began:.0f} s")
    sys.exit(1 if report.complaints else 0)


if __name__ == "__main__":
    main()
