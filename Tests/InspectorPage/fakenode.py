"""A node that answers as no healthy one does: many peers, alarms, held saves, a huge model, odd texts."""

import json
import urllib.parse

import devserver

ODD = "<b>odd</b>\u202e\u0000 " + "x" * 300
NOW = {"milliseconds": 1795000000000, "counter": 0}


def status():
    vector = {f"{n}.{n:016x}": n * 1000 for n in range(1, 30)}
    peers = [{"node": n, "connected": n % 3 != 0, "vector": {f"{n}.{n:016x}": 5}, "lag": n * 7, "missingHere": n,
              "clockOffsetMilliseconds": None, "refusal": ODD if n == 4 else None} for n in range(2, 30)]
    return {
        "node": 1, "actor": "1.0000000000000001", "cluster": "odd", "vector": vector, "generation": 2 ** 63 - 1, "token": "x",
        "digest": "f" * 32, "modelHash": "0" * 64, "parked": [{"place": ODD, "count": 3}], "members": list(range(1, 30)), "peers": peers,
        "conflicts": {"unresolved": {"update": 12345}}, "pins": {"count": 1, "oldestGeneration": 1, "oldestAgeMilliseconds": 9e9, "leases": 1},
        "store": {"bytes": 2 ** 40, "walBytes": 0, "walFileBytes": 0}, "held": [{"transaction": "9.0000000000000009-7", "reason": ODD}],
        "transfer": {"donor": 2, "bytes": 5, "total": 10}, "savesRefused": {"code": "clockDrift", "message": ODD},
        "alarms": [{"name": "orphaned", "text": ODD, "count": 2, "lastMillisecondsAgo": 5000}], "keys": None,
        "stability": {"vector": {}, "waiting": {"transactions": 1, "rows": 2, "tombstones": 3}, "recovering": False, "heldBackBy": [3],
                      "members": [{"node": 3, "hindrance": "behind", "transactions": 1, "waitingMilliseconds": 1, "heardMillisecondsAgo": None, "text": "Node 3 is behind. " + ODD}]},
        "reads": {"underWay": [{"text": ODD, "milliseconds": 60000, "isLong": True}], "waiting": 3, "waitingLong": 1},
        "history": {"transactions": 0, "bytes": 0, "oldest": None},
    }


def model():
    entities = [{"name": f"Entity{n}WithAnEndlessNameThatFillsTheBox", "parent": f"Entity{(n + 1) % 90}WithAnEndlessNameThatFillsTheBox" if n % 9 == 0 else None,
                 "attributes": [{"name": f"attribute{a}", "type": "string"} for a in range(n % 40)],
                 "relationships": [{"name": "next", "destination": f"Entity{(n * 7 + 1) % 90}WithAnEndlessNameThatFillsTheBox"},
                                   {"name": "nowhere", "destination": "Missing", "inverse": "missing"}]} for n in range(90)]
    # Parents in a circle: a loop over them must end.
    entities.append({"name": "Loop", "parent": "Pool", "attributes": []})
    entities.append({"name": "Pool", "parent": "Loop", "attributes": []})
    return {"entities": entities}


def conflict(number):
    side = {"node": 1, "author": ODD, "context": None, "timestamp": NOW, "visible": False}
    kinds = ["update", "delete", "row", "uniqueness", "dangling", "link", "count", "save", "of the future"]
    kind = kinds[number % len(kinds)]
    sides = [] if kind == "count" else [{**side, "dot": f"{n + 1}.{n:016x}-1", "node": n + 1, "value": value} for n, value in enumerate([None, ODD, {"a": [1, {"b": 2}]}, [], 10 ** 17])]
    return {"id": f"Gone.p{number}.x", "short": f"{number:07x}", "kind": kind, "state": "unresolved", "open": True, "entity": "Gone", "object": f"x-tributary://odd/Gone/p{number}",
            "property": "x" if kind in ("update", "dangling", "link") else None, "policy": ODD[:40], "sides": sides, "base": None, "reason": None, "violation": "missingMandatoryProperty",
            "closedBy": None, "decision": None}


class Handler(devserver.Handler):
    def pass_on(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path == "/v1/changes":
            self.close_connection = True
            return self.answer(200, {"Content-Type": "text/event-stream", "Connection": "close"}, b": odd\r\n\r\nid: \xf0\x9f\ndata: {}\n\n")
        answers = {"/v1/status": status, "/v1/model": model, "/v1/conflicts": lambda: {"conflicts": [conflict(n) for n in range(18)], "next": None},
                   "/v1/history": lambda: {"transactions": [], "token": "x"}, "/v1/fetch": lambda: {"objects": [], "count": 0}}
        if path in answers:
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(answers[path]()).encode())
        if path.startswith("/v1/conflicts/Gone.p"):
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(conflict(int(path.split(".")[1][1:]))).encode())
        return self.answer(404, {"Content-Type": "application/json"}, json.dumps({"error": {"code": "objectNotFound", "message": ODD}}).encode())
