"""What schemathesis loads beside the description: CBOR, what may be sent, and checks of our own."""

import json
import os
import pathlib
import random
import sys

import schemathesis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cbor  # noqa: E402
from rules import answer_complaint, resolved, schema_complaint  # noqa: E402

LOG = open(os.environ["OPENAPI_CHECK_LOG"], "a", buffering=1)
BACKUPS = os.environ["OPENAPI_CHECK_BACKUPS"]
DESCRIPTION = json.loads(pathlib.Path(os.environ["OPENAPI_CHECK_DESCRIPTION"]).read_text())


@schemathesis.serializer("application/cbor")
def send_cbor(context, value):
    return cbor.encode(value)


def is_safe(case):
    """A backup writes a file where it is told: only into the folder of this test."""
    if case.operation.definition.raw.get("operationId") != "backUp":
        return True
    path = case.body.get("path") if isinstance(case.body, dict) else None
    return not isinstance(path, str) or not path.startswith("/") or path.startswith(BACKUPS + "/") and ".." not in path


@schemathesis.hook
def filter_case(context, case):
    return is_safe(case)


@schemathesis.hook
def before_call(context, case, kwargs):
    if not is_safe(case):
        raise RuntimeError("a backup to somewhere else")
    # These exclude each other, which OpenAPI cannot say of parameters.
    if case.operation.definition.raw["operationId"] == "getObject" and {"at", "generation"} <= set(case.query or {}):
        del case.query[random.choice(["at", "generation"])]
    # Each form that the description has for an answer is asked for now and then.
    if "Accept" not in (case.headers or {}):
        forms = case.operation.definition.raw["responses"]["200"].get("content", {})
        case.headers["Accept"] = random.choice(["*/*", *forms])


@schemathesis.hook
def after_call(context, case, response):
    LOG.write(json.dumps([case.operation.definition.raw["operationId"], response.status_code,
                          round(response.elapsed, 3), case.meta is not None and case.meta.generation.mode.is_negative,
                          case.method]) + "\n")


def is_as_described(case):
    """Whether a request is right by the description: what is drawn from is narrower than that in places."""
    operation = case.operation.definition.raw
    described = DESCRIPTION["paths"][case.operation.path][case.operation.method.lower()]
    sent = {"path": case.path_parameters, "query": case.query, "header": case.headers}
    known = set()
    for parameter in described.get("parameters", []):
        parameter = resolved(DESCRIPTION, parameter)
        known.add((parameter["in"], parameter["name"]))
        given = sent[parameter["in"]] or {}
        if parameter["name"] not in given:
            if parameter.get("required"):
                return False
            continue
        text = given[parameter["name"]]
        texts = [text]
        try:
            texts.append(json.loads(text))  # a parameter has no type but what its text reads as
        except (TypeError, ValueError):
            pass
        texts.append(str(text))
        if all(schema_complaint(DESCRIPTION, parameter["schema"], one) for one in texts):
            return False
    if described.get("x-tributary-parameters") != "any" and any(("query", name) not in known for name in case.query or {}):
        return False
    content = operation.get("requestBody", {}).get("content", {})
    if not content or case.media_type not in content:
        return True
    if not isinstance(case.body, (dict, list, str, int, float, bool, type(None))):
        return not operation["requestBody"].get("required")
    return schema_complaint(DESCRIPTION, described["requestBody"]["content"][case.media_type]["schema"], case.body) is None


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ != "AcceptedNegativeData":
        return True
    # A batch request that is answered in lines is refused in the last of them.
    kind = (response.headers.get("content-type") or [""])[0]
    if kind == "application/x-ndjson" and b'"error"' in response.content.rstrip(b"\n").rpartition(b"\n")[2]:
        return False
    # A save that was done is answered as the first time: what is beside its operations does not count.
    if case.operation.definition.raw["operationId"] == "save" and case.body.get("saveID"):
        return False
    return not is_as_described(case)


@schemathesis.check
def is_described(ctx, response, case):
    """An answer's status, type, body and code, by the whole description."""
    operation = case.operation.definition.raw
    if case.method.upper() != case.operation.method.upper():
        # The boundary values have other methods, too.
        expected = {"OPTIONS": 204, "HEAD": 200}.get(case.method.upper())
        if response.status_code not in (404, 405, 501, expected):
            raise AssertionError(f"{case.method} gives {response.status_code}")
        return None
    described = DESCRIPTION["paths"][case.operation.path][case.operation.method.lower()]
    kind = (response.headers.get("content-type") or [""])[0].split(";")[0]
    complaint = answer_complaint(DESCRIPTION, described, response.status_code, kind, response.content)
    if complaint:
        raise AssertionError(complaint)
    return None
