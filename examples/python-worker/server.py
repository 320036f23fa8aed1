"""A FlowFabric server, called with the standard library: JSON out, JSON back, and again if the answer is lost."""
import http.client
import json
import os
import time
import urllib.error
import urllib.request

ADDRESS = os.environ.get("FLOWFABRIC_SERVER", "http://127.0.0.1:7400")


class Problem(Exception):
    """What the server answers instead of what was asked for (RFC 9457)."""

    def __init__(self, document):
        super().__init__(f"{document['code']}: {document['detail']}")
        self.code, self.retryable = document["code"], document["retryable"]


class Server:
    def __init__(self, address=ADDRESS):
        self.address, self.headers = address, {"Content-Type": "application/json"}
        if token := os.environ.get("FLOWFABRIC_TOKEN"):
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
