"""What is there for the requests to be about: without it, most of them would be told that nothing has that id."""

import http.client
import itertools
import json
import os
import urllib.parse

# How often something is used until it is made anew: requests for all that there is may have ended it meanwhile.
USES_MAX = 25

# In its own lane and of kinds of its own, so that no other claim gets it.
LANE = "ground"


class Server:
    def __init__(self, url, token):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, method, path, body=None):
        sent = None if method == "GET" else json.dumps(body or {})
        self.connection.request(method, f"/v1{path}", sent, self.headers)
        response = self.connection.getresponse()
        text = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} {body}: {response.status} {text}")
        return json.loads(text or "null")


class Ground:
    """Each function makes something new; `kept` gives what was made before, for requests that leave it as it is."""

    def __init__(self, server):
        self.server, self.numbers, self.made = server, itertools.count(1), {}
        # Of flows whose members were asked for.
        self.nodes = {}
        self.instance = self.worker()

    def kept(self, make):
        made, uses = self.made.get(make.__name__, (None, USES_MAX))
        if uses == USES_MAX:
            made, uses = make(), 0
        self.made[make.__name__] = made, uses + 1
        return made

    def call(self, method, path, body=None):
        return self.server.call(method, path, body)

    def task(self, how, lease, **more):
        """One task of a batch; what is made here must be taken."""
        told = self.call("POST", f"/tasks/{how}", {"tasks": [{"lease": lease, **more}]})
        if problem := told["outcomes"][0]["problem"]:
            raise RuntimeError(f"{how}: {problem}")

    def run(self):
        # Its lease outlives all requests.
        policy = {"lease_ms": "24h", "max_attempts": 1000}
        return {"kind": f"ground.{next(self.numbers)}", "lane": LANE, "input": [1], "policy": policy}

    def worker(self):
        return self.call("POST", "/workers", {"name": "ground", "lanes": [LANE], "ttl_ms": "1h"})["id"]

    def claim(self, kind):
        wish = {"name": "ground", "lanes": [LANE], "kinds": [kind]}
        tasks = self.call("POST", f"/workers/{self.instance}/claim", wish)["tasks"]
        return tasks[0]["lease"]

    def waiting(self):
        return self.call("POST", "/executions", {**self.run(), "tags": {"a": "b"}})["id"]

    def signalled(self):
        execution = self.waiting()
        self.call("POST", f"/executions/{execution}/signal", {"name": "paid", "payload": 1})
        return execution

    def held(self):
        execution = self.waiting()
        self.call("POST", f"/executions/{execution}/hold")
        return execution

    def lease(self):
        run = self.run()
        self.call("POST", "/executions", run)
        return self.claim(run["kind"])

    def node_lease(self):
        """Of a node whose flow may grow."""
        run = self.run()
        self.call("POST", "/flows", {"nodes": [{"name": "a", "run": run}], "sealed": False})
        return self.claim(run["kind"])

    def active(self):
        return self.lease()["execution"]

    def suspended(self):
        lease = self.lease()
        condition = {"any_of": [{"signal": {"waitpoint": 1}}, {"signal": {"name": "paid"}}]}
        self.task("suspend", lease, condition=condition, waitpoints=[{"name": "approved"}])
        return lease["execution"]

    def waitpoint(self):
        return f"{self.suspended()}-1"

    def ended(self):
        """It has all that an execution can leave behind."""
        lease = self.lease()
        frames = [{"kind": "text", "text": "one"}, {"kind": "json", "json": {"two": 2}}]
        step = {"step": {"name": "s", "number": 1, "occurrence": 0}, "result": [1], "took_ms": 1}
        self.task("progress", lease, percent=50, message="half")
        self.task("frames", lease, first=1, frames=frames)
        self.task("steps", lease, steps=[step])
        self.call("POST", "/tasks/child", {"lease": lease, "run": self.run()})
        self.task("complete", lease, result={"done": True})
        return lease["execution"]

    def failed(self):
        lease = self.lease()
        self.task("fail", lease, error={"message": "no", "code": "bad", "class": "fatal"})
        return lease["execution"]

    def flow(self):
        """Two that depend on each other, and two that could."""
        nodes = [{"name": name, "run": self.run()} for name in "abcd"]
        nodes[3]["open"] = True
        body = {"nodes": nodes, "edges": [{"from": "a", "to": "b"}], "sealed": False, "tags": {"a": "b"}}
        return self.call("POST", "/flows", body)["flow"]["id"]

    def ended_flow(self):
        run = self.run()
        flow = self.call("POST", "/flows", {"nodes": [{"name": "a", "run": run}]})["flow"]["id"]
        self.task("complete", self.claim(run["kind"]), result=1)
        return flow

    def members(self):
        """The ids of the nodes of a flow, by name."""
        flow = self.flow()
        members = self.call("GET", f"/flows/{flow}/members")["members"]
        self.nodes[flow] = {it["execution"]["node"]: it["execution"]["id"] for it in members}
        return {"id": flow, **self.nodes[flow]}

    def webhook(self):
        # Under one name, since there may be only so many.
        self.call("PUT", "/webhooks/ground", {"url": "http://127.0.0.1:9/", "paused": True})
        return "ground"

    def token(self):
        return self.call("POST", "/tokens", {"name": "ground", "role": "viewer"})["token"]["id"]

    def lane(self):
        self.call("PATCH", "/lanes/other", {"mode": "open"})
        return "other"

    def namespace(self):
        self.waiting()
        return "default"

    def bulk(self):
        ids = [self.waiting()]
        return self.call("POST", "/bulk/priority", {"ids": ids, "priority": 1})["id"]

    def cursor(self):
        self.waiting()
        return self.call("GET", "/events?start=beginning&limit=1")["next_cursor"]


def from_environment():
    return Ground(Server(os.environ["FLOWFABRIC_CONTRACT_SERVER"], os.environ["FLOWFABRIC_CONTRACT_TOKEN"]))
