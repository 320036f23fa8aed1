#!/usr/bin/env python3
"""A FlowFabric worker in plain Python: HTTP and the standard library are enough.

    python3 worker.py --server http://127.0.0.1:7400 --concurrency 4

One thread claims, one beats, one reports in batches; each task has its own. Handlers are on top, the protocol below.
"""
import argparse
import http.client
import json
import os
import queue
import signal
import threading
import time
import urllib.error
import urllib.request


def count_words(task):
    """Counts words. It takes its time if it is told to, and stops half-way when somebody cancels it."""
    if not isinstance(task.input, dict) or not isinstance(task.input.get("text"), str):
        raise Fatal("text is missing")
    if task.cancelled.wait(task.input.get("seconds", 0)):
        raise Fatal("stopped, because it was cancelled")
    return {"words": len(task.input["text"].split()), "by": os.getpid()}


HANDLERS = {"count-words": count_words}


class Fatal(Exception):
    """An error that no further attempt can mend. Every other exception is tried again."""


class Problem(Exception):
    """What the server answers instead of what was asked for (RFC 9457)."""

    def __init__(self, document):
        super().__init__(f"{document['code']}: {document['detail']}")
        self.code, self.retryable = document["code"], document["retryable"]


class Server:
    def __init__(self, address, token):
        self.address, self.headers = address, {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def once(self, method, path, document, wait):
        body = json.dumps(document).encode() if document else None
        request = urllib.request.Request(f"{self.address}/v1{path}", body, self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=wait + 10) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            raise Problem(json.loads(error.read())) from None

    def call(self, method, path, document=None, wait=0, patience=60):
        """Asks until there is an answer. Every call of this protocol may be sent again after a lost answer."""
        deadline, pause = time.monotonic() + patience, 0.05
        while True:
            try:
                return self.once(method, path, document, wait)
            except (OSError, http.client.HTTPException, ValueError, Problem) as trouble:
                final = isinstance(trouble, Problem) and not trouble.retryable
                if final or time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 2)


class Task:
    def __init__(self, document):
        self.lease = document["lease"]  # Execution, attempt and epoch: every call about the task names it.
        self.kind, self.input = document["kind"], document["input"]
        self.cancelled = threading.Event()


class Worker:
    def __init__(self, server, lane, concurrency):
        self.server, self.concurrency, self.plan = server, concurrency, {"name": "python", "lanes": [lane]}
        self.running, self.lock = {}, threading.Lock()
        self.endings, self.room, self.stopping = queue.Queue(), threading.Event(), False

    def register(self):
        answer = self.server.call("POST", "/workers", {**self.plan, "ttl_ms": 5_000})
        self.id, self.poll = answer["id"], 0
        print(f"registered as {self.id}", flush=True)

    def claim(self):
        """Waits for tasks while there is room. A poll number that is sent again gets the same tasks again."""
        while not self.stopping:
            while (room := self.concurrency - len(self.running)) == 0:
                self.room.wait()
                self.room.clear()
            self.poll += 1
            wish = {**self.plan, "kinds": list(HANDLERS), "max": room, "wait_ms": 5_000, "poll": self.poll}
            try:
                answer = self.server.call("POST", f"/workers/{self.id}/claim", wish, wait=5)
            except Problem as problem:
                if problem.code == "worker_draining" or self.stopping:
                    return os.kill(os.getpid(), signal.SIGTERM)
                if problem.code not in ("worker_unknown", "worker_dead"):
                    raise
                self.register()
                continue
            for task in map(Task, answer["tasks"]):
                self.running[task.lease["execution"]] = task
                threading.Thread(target=self.run, args=(task,), daemon=True).start()

    def run(self, task):
        try:
            self.endings.put(("complete", {"lease": task.lease, "result": HANDLERS[task.kind](task)}))
        except Exception as error:
            kind = "fatal" if isinstance(error, Fatal) else "retryable"
            error = {"message": str(error), "code": type(error).__name__.lower(), "class": kind}
            self.endings.put(("fail", {"lease": task.lease, "error": error}))

    def report(self):
        """Sends what has ended: all that waits in one request, and what ends meanwhile in the next."""
        while True:
            waiting = [self.endings.get()]
            while not self.endings.empty():
                waiting.append(self.endings.get())
            for how in ("complete", "fail"):
                tasks = [ending for said, ending in waiting if said == how]
                if tasks:
                    answer = self.server.call("POST", f"/tasks/{how}", {"tasks": tasks})
                    for task, told in zip(tasks, answer["outcomes"]):
                        self.forget(task["lease"], told["problem"])

    def forget(self, lease, problem):
        """The task has ended, or its lease is another's, and what becomes of it here counts for nothing."""
        with self.lock:
            task = self.running.get(lease["execution"])
            if task and task.lease == lease:
                del self.running[lease["execution"]]
                task.cancelled.set()
                if problem:
                    print(f"{lease['execution']}: {problem['code']}", flush=True)
        self.room.set()

    def beat(self):
        """Renews all leases with one request and hears of cancels as soon as there are any."""
        while True:
            tasks = list(self.running.values())
            # Not longer than a second, so that tasks claimed meanwhile are soon among those that are named.
            beat = {"leases": [task.lease for task in tasks], "wait_ms": 1_000}
            try:
                answer = self.server.call("POST", f"/workers/{self.id}/heartbeat", beat, wait=1)
            except Problem:
                time.sleep(1)  # Whoever is not known any more registers with the next claim.
                continue
            for task, told in zip(tasks, answer["leases"]):
                if told["problem"]:
                    self.forget(task.lease, told["problem"])
                elif told["cancel"]:
                    task.cancelled.set()

    def stop(self, grace):
        """Lets tasks end for a while, gives the rest back, and says goodbye."""
        self.stopping, deadline = True, time.monotonic() + grace
        self.server.call("POST", f"/workers/{self.id}/drain", patience=5)  # A claim on its way gets nothing more.
        while self.running and time.monotonic() < deadline:
            time.sleep(0.05)
        rest = [{"lease": task.lease} for task in list(self.running.values())]
        if rest:
            self.server.call("POST", "/tasks/release", {"tasks": rest}, patience=5)
        self.server.call("DELETE", f"/workers/{self.id}", patience=5)
        print(f"stopped, {len(rest)} given back", flush=True)


def crash(told):
    """A worker that is half alive holds leases for nothing."""
    threading.__excepthook__(told)
    os._exit(1)


def main():
    options = argparse.ArgumentParser(description="Counts words for FlowFabric.")
    options.add_argument("--server", default=os.environ.get("FLOWFABRIC_SERVER", "http://127.0.0.1:7400"))
    options.add_argument("--lane", default="default")
    options.add_argument("--concurrency", type=int, default=4)
    options.add_argument("--grace", type=float, default=10, help="seconds that tasks have to end after SIGTERM")
    given = options.parse_args()
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    threading.excepthook = crash
    worker = Worker(Server(given.server, os.environ.get("FLOWFABRIC_TOKEN")), given.lane, given.concurrency)
    worker.register()
    for work in (worker.claim, worker.report, worker.beat):
        threading.Thread(target=work, daemon=True).start()
    signal.sigwait(signals)
    worker.stop(given.grace)


if __name__ == "__main__":
    main()
