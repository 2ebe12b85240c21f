#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Makes verbs calls for a test that runs outside of the guest, so that one test can control both sides.

Reads one JSON call per line from stdin, and answers each with one JSON line on stdout:

  {"object": 0, "method": "Device", "args": ["vrdma0"], "kwargs": {}}
  {"value": {"object": 1, "fields": {...}}} | {"error": "Failed to create a CQ. ...", "errno": 22}

Object 0 is the module `endpoints`, whose classes can be called.
"""

import json
import sys
import traceback

from pyverbs.pyverbs_error import PyverbsError

import endpoints
from remotable import Remotable


class Server:
    def __init__(self) -> None:
        self.objects: dict[int, object] = {0: endpoints}

    def encode(self, value: object) -> object:
        if not isinstance(value, Remotable):
            return value
        number = max(self.objects) + 1
        self.objects[number] = value
        return {"object": number, "fields": value.fields()}

    def decode(self, value: object) -> object:
        if isinstance(value, dict) and value.keys() == {"object"}:
            return self.objects[value["object"]]
        if isinstance(value, dict):
            return {key: self.decode(item) for key, item in value.items()}
        return [self.decode(item) for item in value] if isinstance(value, list) else value

    def answer(self, call: dict) -> dict:
        try:
            method = getattr(self.objects[call["object"]], call["method"])
            return {"value": self.encode(method(*self.decode(call["args"]), **self.decode(call["kwargs"])))}
        except PyverbsError as error:
            return {"error": str(error), "errno": getattr(error, "error_code", 0)}
        except Exception:  # reported to the test; the next call is served
            return {"error": traceback.format_exc(), "errno": 0}


def main() -> None:
    server = Server()
    for line in sys.stdin:
        print(json.dumps(server.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
