"""An emulator that is wrong on purpose: `phobos-sim score --against "python examples/against/naive.py"`.

It multiplies matrices in float64 and rounds once, as if a tensor core were exact. The scoreboard shows where it is not.
"""

import json
import sys

import numpy as np

FLOATS = {"f16": np.float16, "f32": np.float32}


def floats(operand):
    values = np.frombuffer(bytes.fromhex(operand["hex"]), FLOATS[operand["format"]])
    return values.reshape(operand["shape"]).astype(np.float64)


for line in sys.stdin:
    request = json.loads(line)
    formats = [operand["format"] for operand in request["inputs"]]
    answer = {"id": request["id"]}
    if request["instruction"].startswith("HMMA") and set(formats) <= set(FLOATS):
        with np.errstate(all="ignore"):
            a, b, c = map(floats, request["inputs"])
            answer["hex"] = (a @ b + c).astype(FLOATS[request["result"]["format"]]).tobytes().hex()
    else:
        answer["unsupported"] = "only f16 matrix products"
    print(json.dumps(answer), flush=True)
