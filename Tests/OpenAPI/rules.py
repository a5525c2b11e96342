"""Rules about answers that OpenAPI has no words for."""

import json

import cbor

# Answers of 5xx that are refusals and no failures, on a node by itself under this test.
REFUSALS = {
    # A node without a mesh has no members to add or to remove.
    ("join", 501, "notSupported"), ("depart", 501, "notSupported"),
    # 128 pins, each for a minute or more; 64 consumers.
    ("pinGeneration", 503, "limitExceeded"), ("putConsumer", 503, "limitExceeded"),
    # "after" names what this node has not seen and never will.
    ("fetch", 504, "generationTimeout"), ("getObject", 504, "generationTimeout"),
    ("pinGeneration", 504, "generationTimeout"),
}


def resolved(description, part):
    while isinstance(part, dict) and "$ref" in part:
        target = description
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name.replace("~1", "/")]
        part = target
    return part


def parsed(kind, body):
    return cbor.decode(body) if kind == "application/cbor" else json.loads(body)


def code_complaint(description, operation, status, kind, body):
    """What is wrong with an error's code, or None."""
    if status < 400:
        return None
    response = resolved(description, operation["responses"].get(str(status)))
    try:
        code = parsed(kind, body)["error"]["code"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return f"{status} without an error's body: {error!r}, {body[:200]!r}"
    name = operation["operationId"]
    if status >= 500 and (name, status, code) not in REFUSALS:
        return f"{name} failed: {status} {code}: {body[:400]!r}"
    if response is None:
        return f"{name} does not have {status} {code}"
    codes = response.get("x-tributary-codes", [])
    if code not in codes:
        return f"{name} has {status} with {codes}, not {code}: {body[:400]!r}"
    return None


def line_complaint(description, operation, body):
    """What is wrong with a stream of lines, or None."""
    lines = body.decode().split("\n")
    if lines.pop() != "":
        return "the last line does not end"
    values = [json.loads(line) for line in lines]
    if not values or not ("end" in values[-1] or "error" in values[-1]):
        return f"the last line is no end: {lines[-1:]}"
    schema = operation["responses"]["200"]["content"]["application/x-ndjson"]["x-tributary-line"]
    for value in values:
        complaint = schema_complaint(description, schema, value)
        if complaint:
            return complaint
    return None


VALIDATORS = {}


def schema_complaint(description, schema, value):
    """What a value lacks of a schema of the description, or None."""
    import jsonschema_rs  # comes with schemathesis
    key = json.dumps(schema)
    if key not in VALIDATORS:
        VALIDATORS[key] = jsonschema_rs.Draft202012Validator({**schema, "components": description["components"]})
    for error in VALIDATORS[key].iter_errors(value):
        return f"{error.message} at {list(error.instance_path)}"
    return None


def answer_complaint(description, operation, status, kind, body):
    """What the description does not say about an answer, or None."""
    name = operation["operationId"]
    response = operation["responses"].get(str(status))
    if response is None:
        return f"{name} does not have {status}: {body[:300]!r}"
    content = resolved(description, response).get("content")
    if content is None:
        return None if not body else f"{name} {status} has a body"
    if kind not in content:
        return f"{name} {status} is {kind!r}, not {list(content)}"
    complaint = code_complaint(description, operation, status, kind, body)
    if complaint or kind == "text/event-stream":
        return complaint
    try:
        if kind == "application/x-ndjson":
            complaint = line_complaint(description, operation, body)
        else:
            is_text = kind not in ("application/json", "application/cbor")
            value = body.decode() if is_text else parsed(kind, body)
            complaint = schema_complaint(description, content[kind]["schema"], value)
    except (ValueError, KeyError, IndexError) as error:
        complaint = f"the body is no {kind}: {error!r}"
    return complaint and f"{name} {status}: {complaint}"
