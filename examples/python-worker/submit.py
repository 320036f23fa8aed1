#!/usr/bin/env python3
"""Submits one execution for each line of standard input, in one request, and prints what each came to.

    echo '{"text": "to be or not to be"}' | python3 submit.py count-words
"""
import json
import os
import sys
import urllib.request

SERVER = os.environ.get("FLOWFABRIC_SERVER", "http://127.0.0.1:7400")
HEADERS = {"Content-Type": "application/json"}
if "FLOWFABRIC_TOKEN" in os.environ:
    HEADERS["Authorization"] = f"Bearer {os.environ['FLOWFABRIC_TOKEN']}"


def ask(path, document=None):
    body = json.dumps(document).encode() if document else None
    with urllib.request.urlopen(urllib.request.Request(f"{SERVER}/v1{path}", body, HEADERS)) as answer:
        return json.load(answer)


kind = sys.argv[1]
work = [{"kind": kind, "input": json.loads(line)} for line in sys.stdin]
for outcome in ask("/executions", {"executions": work})["outcomes"]:
    if outcome["problem"]:
        sys.exit(outcome["problem"]["detail"])
    ended = {"ended": False}
    while not ended["ended"]:
        ended = ask(f"/executions/{outcome['answer']['id']}/result?wait=30s")
    print(ended["id"], ended["state"], json.dumps(ended["result"]), flush=True)
