#!/usr/bin/env python3
"""Submits one execution for each line of standard input, in one request, and prints what each came to.

    echo '{"text": "to be or not to be"}' | python3 submit.py count-words
"""
import json
import sys
import uuid

from server import Server

server, kind = Server(), sys.argv[1]
# With keys of their own they may be sent again after a lost answer, and nothing is made twice.
work = [{"kind": kind, "input": json.loads(line), "idempotency_key": str(uuid.uuid4())} for line in sys.stdin]
for outcome in server.call("POST", "/executions", {"executions": work})["outcomes"]:
    if outcome["problem"]:
        sys.exit(outcome["problem"]["detail"])
    ended = {"ended": False}
    while not ended["ended"]:
        ended = server.call("GET", f"/executions/{outcome['answer']['id']}/result?wait=30s", wait=30)
    print(ended["id"], ended["state"], json.dumps(ended["result"]), flush=True)
