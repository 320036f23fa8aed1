#!/usr/bin/env python3
"""A FlowFabric worker in plain Python: HTTP and the standard library are enough.

    python3 worker.py --server http://127.0.0.1:7400 --concurrency 4

One thread claims, one beats, one reports in batches; each task has its own. What they do is in handlers.py,
calling a server in server.py.
"""
import argparse
import json
import os
import queue
import signal
import threading
import time

from handlers import HANDLERS, Fatal
from server import ADDRESS, Problem, Server


class Task:
    def __init__(self, document):
        self.lease = document["lease"]  # Execution, attempt and epoch: every call about the task names it.
        self.kind, self.input, self.cancelled = document["kind"], document["input"], threading.Event()


class Worker:
    def __init__(self, server, lane, concurrency):
        self.server, self.concurrency, self.plan = server, concurrency, {"name": "python", "lanes": [lane]}
        self.running, self.lock = {}, threading.Lock()
        self.endings, self.room, self.stopping, self.poll = queue.Queue(), threading.Event(), False, 0

    def register(self):
        self.id = self.server.call("POST", "/workers", {**self.plan, "ttl_ms": 5_000})["id"]
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
            result = HANDLERS[task.kind](task)
            # What is no JSON fails this task here, and not the request that reports it with others.
            json.dumps(result, ensure_ascii=False, allow_nan=False).encode()
            self.endings.put(("complete", {"lease": task.lease, "result": result}))
        except Exception as error:
            told = {"message": str(error), "code": type(error).__name__.lower()}
            told["class"] = "fatal" if isinstance(error, Fatal) else "retryable"
            self.endings.put(("fail", {"lease": task.lease, "error": told}))

    def report(self):
        """Sends what has ended: all that waits in one request, and what ends meanwhile in the next."""
        while True:
            waiting = [self.endings.get()] + [self.endings.get() for _ in range(self.endings.qsize())]
            for how in ("complete", "fail"):
                if tasks := [ending for said, ending in waiting if said == how]:
                    answer = self.server.call("POST", f"/tasks/{how}", {"tasks": tasks})
                    for task, told in zip(tasks, answer["outcomes"]):
                        self.forget(task["lease"], told["problem"])

    def forget(self, lease, problem):
        """The task has ended, or its lease is another's, and what becomes of it here counts for nothing."""
        with self.lock:
            task = self.running.get(lease["execution"])
            if task and task.lease == lease:
                self.running.pop(lease["execution"]).cancelled.set()
                if problem:
                    print(f"{lease['execution']}: {problem['code']}", flush=True)
        self.room.set()

    def beat(self):
        """Renews all leases with one request and hears of cancels as soon as there are any."""
        while True:
            tasks, began = list(self.running.values()), time.monotonic()
            # Not longer than a second, so that tasks claimed meanwhile are soon among those that are named.
            beat = {"leases": [task.lease for task in tasks], "wait_ms": 1_000}
            try:
                answer = self.server.call("POST", f"/workers/{self.id}/heartbeat", beat, wait=1)
            except Problem:  # Whoever is not known any more registers with the next claim.
                answer = {"leases": []}
            for task, told in zip(tasks, answer["leases"]):
                if told["problem"]:
                    self.forget(task.lease, told["problem"])
                elif told["cancel"]:
                    task.cancelled.set()
            if time.monotonic() - began < 0.9:
                time.sleep(0.2)  # What is still news in the next answer must not be asked for in a busy loop.

    def stop(self, grace):
        """Lets tasks end for a while, gives the rest back, and says goodbye."""
        self.stopping, deadline = True, time.monotonic() + grace
        self.server.call("POST", f"/workers/{self.id}/drain", patience=5)  # A claim on its way gets nothing more.
        while self.running and time.monotonic() < deadline:
            time.sleep(0.05)
        if rest := [{"lease": task.lease} for task in list(self.running.values())]:
            self.server.call("POST", "/tasks/release", {"tasks": rest}, patience=5)
        self.server.call("DELETE", f"/workers/{self.id}", patience=5)
        print(f"stopped, {len(rest)} given back", flush=True)


def crash(told):
    """A worker that is half alive holds leases for nothing."""
    threading.__excepthook__(told)
    os._exit(1)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Counts words for FlowFabric.")
    options.add_argument("--server", default=ADDRESS)
    options.add_argument("--lane", default="default")
    options.add_argument("--concurrency", type=int, default=4)
    options.add_argument("--grace", type=float, default=10, help="seconds that tasks have to end after SIGTERM")
    given, signals = options.parse_args(), {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    threading.excepthook = crash
    worker = Worker(Server(given.server), given.lane, given.concurrency)
    worker.register()
    for work in (worker.claim, worker.report, worker.beat):
        threading.Thread(target=work, daemon=True).start()
    signal.sigwait(signals)
    worker.stop(given.grace)
