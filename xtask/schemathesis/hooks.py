"""What is changed in the requests before they are sent."""

import itertools
import os
import time
from collections import defaultdict

import ground
import schemathesis
from schemathesis.core import NotSet
from schemathesis.core.parameters import ParameterLocation

OWN_TOKEN = os.environ["FLOWFABRIC_CONTRACT_TOKEN_ID"]

GROUND = ground.from_environment()

# What every second request to an operation is about, in turns. In a tuple: something new each time, because the request
# changes or ends it.
EXECUTIONS = [GROUND.ended, GROUND.failed, GROUND.signalled, GROUND.suspended, GROUND.active, GROUND.waiting]
IDS = {
    "/v1/bulk/{id}": [GROUND.bulk],
    "/v1/bulk/{id}/stop": [(GROUND.bulk,)],
    "/v1/executions/{id}": EXECUTIONS,
    "DELETE /v1/executions/{id}": [(GROUND.ended,), (GROUND.failed,), GROUND.waiting],
    "/v1/executions/{id}/cancel": [(GROUND.waiting,), (GROUND.active,), (GROUND.suspended,), GROUND.ended],
    "/v1/executions/{id}/hold": [(GROUND.waiting,), (GROUND.active,), GROUND.ended],
    "/v1/executions/{id}/priority": [(GROUND.waiting,), GROUND.ended],
    "/v1/executions/{id}/release": [(GROUND.held,), GROUND.waiting],
    "/v1/executions/{id}/replay": [(GROUND.ended,), (GROUND.failed,), GROUND.waiting],
    "/v1/executions/{id}/resume": [(GROUND.suspended,), GROUND.waiting],
    "/v1/executions/{id}/revoke": [(GROUND.active,), GROUND.waiting],
    "/v1/executions/{id}/signal": [(GROUND.suspended,), (GROUND.waiting,), GROUND.ended],
    "/v1/executions/{id}/tags": [(GROUND.waiting,), GROUND.ended],
    "/v1/flows/{id}": [GROUND.flow, GROUND.ended_flow],
    "/v1/flows/{id}/cancel": [(GROUND.flow,), GROUND.ended_flow],
    "/v1/flows/{id}/nodes": [(GROUND.flow,)],
    "/v1/flows/{id}/seal": [(GROUND.flow,), GROUND.ended_flow],
    "/v1/flows/{id}/tags": [(GROUND.flow,)],
    "/v1/lanes/{lane}": [GROUND.lane],
    "/v1/namespaces/{namespace}": [GROUND.namespace],
    "/v1/tokens/{id}": [GROUND.token],
    "DELETE /v1/tokens/{id}": [(GROUND.token,)],
    "/v1/waitpoints/{id}": [GROUND.waitpoint],
    "/v1/waitpoints/{id}/signal": [(GROUND.waitpoint,)],
    "/v1/waitpoints/{id}/token": [GROUND.waitpoint],
    "/v1/webhooks/{id}": [GROUND.webhook],
    "DELETE /v1/webhooks/{id}": [(GROUND.webhook,)],
    "/v1/workers/{id}": [GROUND.worker],
    "DELETE /v1/workers/{id}": [(GROUND.worker,)],
    "/v1/workers/{id}/drain": [(GROUND.worker,)],
}

# Whose lease every second request speaks for. The other operations on tasks end it.
LEASES = {
    "/v1/tasks/expand": (GROUND.node_lease,),
    "/v1/tasks/frames": GROUND.lease,
    "/v1/tasks/progress": GROUND.lease,
    "/v1/tasks/steps": GROUND.lease,
    "/v1/tasks/waitpoint": GROUND.lease,
}

# Fields of which only one may be given. A payload that is null is given.
PAYLOADS = ("input", "result", "payload")
EITHER = [
    ("deadline_ms", "deadline_at"),
    ("delay_ms", "start_at"),
    ("timeout_ms", "timeout_at"),
    ("input", "input_encoded"),
    ("result", "result_encoded"),
    ("payload", "payload_encoded"),
    # An id carries the place that its key has.
    ("idempotency_key", "id"),
    ("filter", "ids"),
    # Nobody approves what he asked for himself.
    ("approvers", "requester"),
]

BULKS = ("/v1/bulk/cancel", "/v1/bulk/priority", "/v1/bulk/replay")

HOUR_MS = 3_600_000
SPANS = ["90000", "1500ms", "30s", "5m", "1h"]

CONDITIONS = [
    {"signal": {"name": "paid"}},
    {"any_of": [{"signal": {"name": "paid"}}, {"signal": {"name": "approved"}}]},
    {"all_of": [{"signal": {"name": "paid"}}, {"signal": {"name": "approved"}}]},
]

turns = defaultdict(itertools.count)


def drawn(make):
    return make[0]() if isinstance(make, tuple) else GROUND.kept(make)


def written(value):
    """28.0 is an integer to JSON Schema; nobody writes integers so, and the server does not take them."""
    if isinstance(value, dict):
        return {key: written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**64:
        return int(value)
    return value


def fitting(value):
    """What the document cannot say of a request that has to be taken."""
    if isinstance(value, list):
        return [fitting(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: fitting(item) for key, item in value.items()}
    for one, other in EITHER:
        if value.get(one) is not None or (one in PAYLOADS and one in value):
            value.pop(other, None)
    timely(value)
    # Only a quorum has a number.
    if value.get("policy") == "quorum":
        value["k"] = value.get("k") or 1
    if value.get("policy") in ("all_of", "any_of"):
        value.pop("k", None)
    if "nodes" in value or "edges" in value:
        graph(value)
    return value


def timely(value):
    """Times lie ahead, but not too far. In words, a length of time can be too short for its field."""
    for key, given in value.items():
        if key in ("deadline_at", "start_at", "timeout_at") and given is not None:
            value[key] = int(time.time() * 1000) + HOUR_MS
        if key.endswith("_ms") and isinstance(given, str):
            value[key] = SPANS[len(given) % len(SPANS)]
    # What starts after its deadline would never run.
    if value.get("deadline_ms") is not None or value.get("deadline_at") is not None:
        value.pop("start_at", None)
        value.pop("delay_ms", None)


def within(run):
    """A member of a flow or a child has its namespace and its place from what it belongs to."""
    for field in ("namespace", "idempotency_key", "id"):
        run.pop(field, None)


def graph(body):
    """Names of nodes are unlike, and edges lead from one that is there to others that are there."""
    nodes = body.get("nodes") or []
    for number, node in enumerate(nodes):
        node["name"] = f"n{number}"
        node.pop("hedge", None)
        # In a flow that is sealed nothing stays open.
        if body.get("sealed") is not False:
            node.pop("open", None)
        within(node["run"])
        if node.get("child"):
            within(node["child"])
    edges = (body.pop("edges", None) or [])[: max(len(nodes) - 1, 0)]
    for number, edge in enumerate(edges):
        edge["from"], edge["to"] = "n0", f"n{number + 1}"
    if edges:
        body["edges"] = edges


def place(case, turn):
    """Puts the id of something that is there into the path."""
    path, method = case.operation.path, case.operation.method.upper()
    if path == "/v1/executions/{id}/edges/{downstream}":
        members = GROUND.kept(GROUND.members)
        return {"id": members["a"], "downstream": members["b"]}
    if path == "/v1/executions/{id}/edges":
        members = GROUND.kept(GROUND.members)
        return {"id": members["b" if turn % 4 == 0 else "a"]}
    if path == "/v1/flows/{id}/edges":
        return {"id": GROUND.members()["id"]}
    if path == "/v1/flows/{id}/nodes/{node}/policy":
        members = GROUND.members()
        return {"id": members["id"], "node": members["d"]}
    makes = IDS.get(f"{method} {path}") or IDS.get(path)
    # What is read of something, and what a worker asks, leaves it as it is.
    above = path[: path.index("}") + 1]
    if makes is None and (method == "GET" or above == "/v1/workers/{id}"):
        makes = IDS.get(above)
    if makes is None:
        return case.path_parameters
    (name,) = case.path_parameters
    return {name: drawn(makes[turn // 2 % len(makes)])}


def leased(path, body):
    """Puts a lease that is held where one is named."""
    make = LEASES.get(path, (GROUND.lease,))
    for task in body.get("tasks") or [body]:
        if isinstance(task, dict) and "lease" in task:
            task["lease"] = drawn(make)


def bulk(path, body):
    """Some fields are for one operation only. Which executions is always said."""
    if body.get("filter") is None and body.get("ids") is None:
        body["ids"] = [GROUND.kept(GROUND.waiting)]
    if not path.endswith("cancel"):
        body.pop("grace_ms", None)
    body.pop("priority", None)
    if path.endswith("priority"):
        body["priority"] = 1


def body_of(case, turn, body):
    """What fits, and every second time what is about something that is there."""
    path, about = case.operation.path, turn % 2 == 0
    body = fitting(body)
    if path.startswith("/v1/tasks/") and about:
        leased(path, body)
    if path == "/v1/tasks/suspend":
        for task in body["tasks"]:
            task["condition"] = CONDITIONS[turn % len(CONDITIONS)]
    if path.startswith("/v1/flows/{id}/") and about:
        body.pop("expected_revision", None)
    if path == "/v1/flows/{id}/edges":
        body.pop("nodes", None)
        body.pop("edges", None)
        if members := GROUND.nodes.get(case.path_parameters["id"]):
            after = ("success", "failure", "always")[turn // 2 % 3]
            body["edges"] = [{"from": members["c"], "to": members["d"], "on": after}]
    if path == "/v1/tasks/child":
        within(body["run"])
    if path in BULKS:
        bulk(path, body)
    if path == "/v1/executions/{id}/signal":
        body["name"] = body.get("name") or "paid"
        body.pop("token", None)
    if path == "/v1/waitpoints/{id}/signal":
        body.pop("name", None)
        body.pop("token", None)
    # A key is given once, and for one.
    if "executions" in body and case.headers:
        case.headers.pop("Idempotency-Key", None)
    if case.headers and "Idempotency-Key" in case.headers:
        for field in ("key", "idempotency_key", "id"):
            body.pop(field, None)
    if path == "/v1/webhooks/{id}" and "begin" in body:
        body["begin"] = GROUND.kept(GROUND.cursor)
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    body = written(case.body)
    negative = case.meta.is_negative_at if case.meta else lambda location: False
    turn = next(turns[case.operation.label])
    if case.path_parameters and turn % 2 == 0 and not negative(ParameterLocation.PATH):
        case.path_parameters = place(case, turn)
    # Of some fields one must be there, so the body cannot be left out either.
    needy = case.operation.path in BULKS or case.operation.path == "/v1/executions/{id}/signal"
    if needy and isinstance(body, NotSet) and not negative(ParameterLocation.BODY):
        body, case.media_type = {}, "application/json"
    if isinstance(body, dict) and not negative(ParameterLocation.BODY):
        body = body_of(case, turn, body)
    # Whatever is set is looked at anew, so only what has changed is.
    if repr(body) != repr(case.body):
        case.body = body
    # A cursor is opaque: whoever makes one up is told so.
    if case.operation.path.endswith("/events") and case.meta and case.meta.generation.mode.is_positive:
        for fields in (case.query, case.headers):
            for name in ("cursor", "Last-Event-ID"):
                if name in (fields or {}):
                    fields[name] = GROUND.kept(GROUND.cursor)
    # Without its own token every further request would be refused, and nothing found.
    if (case.path_parameters or {}).get("id") == OWN_TOKEN:
        case.path_parameters = {"id": "tok_of_nobody"}
