"""What schemathesis loads beside the description: CBOR, what may be sent, and checks of our own."""

import json
import os
import pathlib
import random
import sys

import schemathesis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cbor  # noqa: E402
from rules import code_complaint, line_complaint  # noqa: E402

LOG = open(os.environ["OPENAPI_CHECK_LOG"], "a", buffering=1)
BACKUPS = os.environ["OPENAPI_CHECK_BACKUPS"]
DESCRIPTION = json.loads(pathlib.Path(os.environ["OPENAPI_CHECK_DESCRIPTION"]).read_text())


@schemathesis.serializer("application/cbor")
def send_cbor(context, value):
    return cbor.encode(value)


@schemathesis.deserializer("application/cbor")
def read_cbor(context, response):
    return cbor.decode(response.content)


@schemathesis.deserializer("application/x-ndjson")
def read_lines(context, response):
    """Lines are a text in the description; each is checked below."""
    return response.content.decode()


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
    # Each form that the description has for an answer is asked for now and then.
    if "Accept" not in (case.headers or {}):
        forms = case.operation.definition.raw["responses"]["200"].get("content", {})
        case.headers["Accept"] = random.choice(["*/*", *forms])


@schemathesis.hook
def after_call(context, case, response):
    LOG.write(json.dumps([case.operation.definition.raw["operationId"], response.status_code,
                          round(response.elapsed, 3), case.meta is not None and case.meta.generation.mode.is_negative,
                          case.method]) + "\n")


@schemathesis.check
def node_rules(ctx, response, case):
    """Codes of errors, 5xx, and the lines of streams."""
    operation = case.operation.definition.raw
    if case.method.upper() not in case.operation.method.upper():
        return None  # another method than the description's
    body = response.content
    kind = (response.headers.get("content-type") or [""])[0].split(";")[0]
    complaint = code_complaint(DESCRIPTION, operation, response.status_code, kind, body)
    if complaint is None and kind == "application/x-ndjson":
        complaint = line_complaint(DESCRIPTION, operation, body)
    if complaint:
        raise AssertionError(complaint)
    return None
