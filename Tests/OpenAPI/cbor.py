"""As much of CBOR as the node's bodies have."""

import base64
import struct


def encode(value):
    if value is None:
        return b"\xf6"
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int) and -(2**64) <= value < 2**64:
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, (int, float)):
        return b"\xfb" + struct.pack(">d", float(value))
    if isinstance(value, str):
        text = value.encode(errors="surrogatepass")
        return _head(3, len(text)) + text
    if isinstance(value, (list, tuple)):
        return _head(4, len(value)) + b"".join(map(encode, value))
    return _head(5, len(value)) + b"".join(encode(str(k)) + encode(v) for k, v in value.items())


def _head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    for code, form in ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q")):
        if number < 1 << 8 * struct.calcsize(form):
            return bytes([major << 5 | code]) + struct.pack(form, number)


def decode(data):
    """The value of a whole body. Bytes become base64, as they are in JSON."""
    value, end = _decode(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the value")
    return value


def _decode(data, at):
    first = data[at]
    major, code = first >> 5, first & 31
    at += 1
    if first in (0xF4, 0xF5, 0xF6):
        return {0xF4: False, 0xF5: True, 0xF6: None}[first], at
    if major == 7:
        form = {25: ">e", 26: ">f", 27: ">d"}[code]
        size = struct.calcsize(form)
        number = struct.unpack(form, data[at:at + size])[0]
        text = {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(number)
        return text or ("NaN" if number != number else number), at + size
    if code < 24:
        number = code
    else:
        form = {24: ">B", 25: ">H", 26: ">I", 27: ">Q"}[code]
        size = struct.calcsize(form)
        number = struct.unpack(form, data[at:at + size])[0]
        at += size
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if major in (2, 3):
        content = data[at:at + number]
        if len(content) != number:
            raise ValueError("the body ends within a text")
        return base64.b64encode(content).decode() if major == 2 else content.decode(), at + number
    if major == 4:
        items = []
        for _ in range(number):
            item, at = _decode(data, at)
            items.append(item)
        return items, at
    if major == 5:
        members = {}
        for _ in range(number):
            key, at = _decode(data, at)
            members[key], at = _decode(data, at)
        return members, at
    if major == 6:
        return _decode(data, at)
    raise ValueError(f"an unknown head {first:#x}")
