"""Client of Agent Orchestrator's HTTP API.

It starts runs, waits for them and follows their events, also while connections break and coordinators restart. It needs
Python 3.9 or newer and only the standard library.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Dict, Generator, Iterator, List, Mapping, NoReturn, Optional, Tuple, cast

__all__ = [
    "APIError", "AoError", "Client", "Event", "RunError", "Run", "SignatureError", "UnreachableError", "Webhook",
    "verify_webhook",
]

ANSWER_TIMEOUT = 80.0  # seconds for an answer, with up to 50 in which a request waits for the end of a run
IDLE_TIMEOUT = 60.0  # seconds of silence on a stream; coordinators send a comment every 15
MAX_PAUSE = 5.0  # seconds between tries, unless the server asks for more
MAX_LINE = 256 << 20  # bytes of a line of a stream
ENDED = ("completed", "failed", "stopped")

Json = Dict[str, Any]


class AoError(Exception):
    """The base of this module's errors."""


class APIError(AoError):
    """A refusal: an answer with a status from 300 on.

    code is such as invalid_request, and empty if another server answered. field names what to correct, if one field is
    wrong. document has all members.
    """

    def __init__(self, status: int, document: Json, retry_after: float = 0) -> None:
        self.status, self.document, self.retry_after = status, document, retry_after
        self.code = str(document.get("error") or "")
        self.field = str(document.get("field") or "")
        self.message = str(document.get("message") or "not a coordinator's answer")
        super().__init__(f"{status} {self.code}: {self.message}")

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (429, 502, 503, 504)


class UnreachableError(AoError):
    """There was no complete answer during the whole outage, or another server answered."""


class RunError(AoError):
    """A run that failed or was stopped. code is such as timeout or command_failed."""

    def __init__(self, run: Run) -> None:
        error = run.error or {}
        self.run, self.code, self.message = run, str(error.get("error", run.status)), str(error.get("message", ""))
        super().__init__(f"{self.code}: {self.message}")


class SignatureError(AoError):
    """A webhook that is not accepted."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A run as the API describes it. What Client.start returns has only the ids and the status."""

    run_id: str
    session_id: str
    status: str  # pending, claimed, running, stopping, completed, failed, stopped
    error: Optional[Json]  # of a failed or stopped run
    result: Optional[Json]  # of an ended run that Client.wait returned: result_text, result_data, exit_code, note
    document: Json = dataclasses.field(repr=False)  # all members

    @property
    def agent_hash(self) -> str:
        """Identifies the agent's definition; empty: unknown."""
        return str(self.document.get("agent_hash", ""))

    @property
    def ended(self) -> bool:
        """Whether it has completed, failed or been stopped."""
        return self.status in ENDED


def _run(document: Any) -> Run:
    run = cast(Json, document if isinstance(document, dict) else {})
    if not isinstance(run.get("run_id"), str):
        raise UnreachableError(f"not a coordinator's answer: {str(cast(object, document))[:80]!r}")
    get = run.get
    return Run(run["run_id"], get("session_id", ""), get("status", ""), get("error"), get("result"), run)


@dataclasses.dataclass(frozen=True)
class Event:
    """One event of a session."""

    type: str  # run_start, message, result, run_completed, run_failed, ...
    run_id: str
    position: str  # where a later call continues
    document: Json = dataclasses.field(repr=False)  # all members


@dataclasses.dataclass(frozen=True)
class Webhook:
    """The end of a run, as sent to its callback_url."""

    id: str  # the same for all deliveries of one end
    type: str  # run.completed, run.failed or run.stopped
    run: Run


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: the token must not reach another server."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Outage:
    """Spaces the retries of a request or a stream."""

    def __init__(self, retry_for: float) -> None:
        self.retry_for, self.since, self.pause = retry_for, 0.0, 0.0

    def wait(self, error: AoError, least: float = 0, until: Optional[float] = None) -> None:
        """Waits before the next try, at least as long as the server asks. It raises if another try is useless."""
        if isinstance(error, APIError) and error.temporary:
            least = max(least, error.retry_after)
        elif not isinstance(error, UnreachableError):
            raise error
        now = time.monotonic()
        if not self.since:
            self.since, self.pause = now, 0.25
        pause = max(least, self.pause * random.uniform(0.5, 1))  # callers of one outage come back apart
        if now + pause > min(self.since + self.retry_for, until or float("inf")):
            raise error
        self.pause = min(2 * self.pause, MAX_PAUSE)
        time.sleep(pause)


class Client:
    """Calls one deployment. It is safe for use by several threads.

    url defaults to AO_URL or http://127.0.0.1:8765, token to AO_TOKEN or none. During an outage a request or a stream
    is retried for retry_for seconds. context is an ssl.SSLContext, for certificates of an authority of your own.
    """

    def __init__(self, url: str = "", token: str = "", *, retry_for: float = 300, context: Any = None) -> None:
        self._url = (url or os.environ.get("AO_URL") or "http://127.0.0.1:8765").rstrip("/")
        self._token = token or os.environ.get("AO_TOKEN", "")
        self._retry_for = retry_for
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def start(self, agent_name: str = "", *, key: str = "", **body: Any) -> Run:
        """Starts a run with the members of POST /runs, such as parameters, prompt or timeout_seconds.

        It repeats the request under one Idempotency-Key until it is answered, so it starts one run.
        """
        if agent_name:
            body["agent_name"] = agent_name
        return _run(self.call("POST", "/runs", body, key=key or uuid.uuid4().hex))

    def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        """Returns the run with its result once it has ended, however it ended.

        It raises TimeoutError after timeout seconds. The run continues then.
        """
        until = None if timeout is None else time.monotonic() + timeout
        outage = _Outage(self._retry_for)
        while True:
            left = 50.0 if until is None else min(50.0, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{run_id} has not ended within {timeout} s")
            path = f"/runs/{_quote(run_id)}/wait?timeout_seconds={max(1, round(left))}"
            try:
                run = _run(self._once("GET", path))
                outage.since = 0.0
                if run.ended:
                    return run
            except AoError as e:
                outage.wait(e, until=until)

    def run(self, agent_name: str = "", *, key: str = "", timeout: Optional[float] = None, **body: Any) -> Run:
        """Is start and wait. It raises RunError if the run does not complete."""
        run = self.wait(self.start(agent_name, key=key, **body).run_id, timeout)
        if run.status != "completed":
            raise RunError(run)
        return run

    def get(self, run_id: str) -> Run:
        """Returns a run as it is now, without its result."""
        return _run(self.call("GET", f"/runs/{_quote(run_id)}"))

    def stop(self, run_id: str) -> Run:
        """Asks for the end of a run and returns it as it is then."""
        return _run(self.call("POST", f"/runs/{_quote(run_id)}/stop"))

    def call(self, method: str, path: str, body: Optional[Json] = None, *, key: str = "") -> Json:
        """Sends any request of the API, such as GET /runs?status=failed, and returns the document of the answer.

        It retries during an outage, so a request that must not be repeated needs an idempotency key.
        """
        outage = _Outage(self._retry_for)
        while True:
            try:
                return self._once(method, path, body, key)
            except AoError as e:
                outage.wait(e)

    def events(self, run_id: str, after: str = "") -> Iterator[Event]:
        """Yields the events of a run, each once, from a position on (empty: the first) until the run has ended."""
        return iter(_Stream(self, self.get(run_id).session_id, run_id, after))

    def session_events(self, session_id: str, after: str = "") -> Iterator[Event]:
        """Yields the events of all runs of a session, until the session is deleted."""
        return iter(_Stream(self, session_id, "", after))

    def _once(self, method: str, path: str, body: Optional[Json] = None, key: str = "") -> Json:
        response = self._send(method, path, body, ANSWER_TIMEOUT, "Idempotency-Key", key)
        try:
            with response:
                text = response.read()
            return json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as e:
            self._unreachable(e)

    def _send(
        self, method: str, path: str, body: Optional[Json], timeout: float, header: str, value: str
    ) -> http.client.HTTPResponse:
        """Returns the answer to a request with a further header, or raises."""
        request = urllib.request.Request(self._url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", "Bearer " + self._token)
        if value:
            request.add_header(header, value)
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as e:
            refused = e
        except (OSError, http.client.HTTPException) as e:
            self._unreachable(e)
        document: Json = {}
        try:
            with refused:
                document = dict(json.loads(refused.read()))
        except (ValueError, TypeError, RecursionError):
            pass  # another server's answer
        except (OSError, http.client.HTTPException) as e:
            self._unreachable(e)
        after = refused.headers.get("Retry-After", "")
        raise APIError(refused.code, document, _number(after))

    def _unreachable(self, cause: Exception) -> NoReturn:
        raise UnreachableError(f"no answer from {self._url}: {cause}") from cause


class _Stream:
    """Yields events across connections."""

    def __init__(self, client: Client, session_id: str, run_id: str, after: str) -> None:
        self.client, self.session, self.run_id, self.after = client, _quote(session_id), run_id, after
        self.furthest = after  # position, of all so far
        self.outage = _Outage(client._retry_for)
        self.done = False

    def __iter__(self) -> Iterator[Event]:
        while not self.done:
            try:
                yield from self._connection()
            except AoError as e:
                self.outage.wait(e, 1)

    def _connection(self) -> Iterator[Event]:
        """Reads one connection. Without an error the next one follows at once."""
        path = "/sse/sessions?session_id=" + self.session
        response = self.client._send("GET", path, None, IDLE_TIMEOUT, "Last-Event-ID", self.after)
        fields = {"id": self.after}
        start = last = time.monotonic()
        with response:
            while not self.done:
                try:
                    line = response.readline(MAX_LINE)
                    if not line.endswith(b"\n"):
                        raise EOFError("the stream ended, or a line has no end")
                except (OSError, EOFError, http.client.HTTPException) as e:
                    self._broken(e, last - start)
                last = time.monotonic()
                text = line.decode(errors="replace").rstrip("\r\n")
                if text:
                    name, _, value = text.partition(":")
                    fields[name] = value[1:] if value.startswith(" ") else value  # "": a comment
                    continue
                if fields.get("event") == "error":  # the next connection is told why
                    self._broken(EOFError(fields.get("data", "")), last - start)
                before, position = self.after, fields["id"]
                yield from self._message(fields.get("event", ""), fields.get("data", ""), position)
                if fields.get("event") == "init" and self.after not in (before, position):
                    return  # the stream continues after what was listed
                fields = {"id": position}

    def _broken(self, cause: Exception, open_for: float) -> NoReturn:
        if open_for > MAX_PAUSE:
            self.outage.since = 0.0  # a quiet stream, not an outage
        self.client._unreachable(cause)

    def _message(self, name: str, data: str, position: str) -> Iterator[Event]:
        if name in ("", "gap"):  # a gap is followed by init
            return
        if name == "init":  # the stream sends only later events
            before = self.after
            yield from self._list()
            if self.done or self.after != before:
                return
            with self._parsing():
                runs: List[Json] = json.loads(data).get("runs") or []
                self.done = any(r["run_id"] == self.run_id and r["status"] in ENDED for r in runs)
        elif name == "event":
            with self._parsing():
                event = _event(json.loads(data), position)
            yield from self._mine(event)
        elif name == "session_deleted":
            self.done = True
        self._advance(position)

    def _advance(self, position: str) -> None:
        """Continues after a position. Only one beyond all before ends an outage: what failed may come again."""
        self.after = position
        if _order(position) > _order(self.furthest):
            self.furthest, self.outage.since = position, 0.0

    def _list(self) -> Iterator[Event]:
        while True:
            page = self.client._once("GET", f"/sessions/{self.session}/events?limit=500&after={_quote(self.after)}")
            with self._parsing():  # a page is given as a whole, or again
                documents: List[Json] = page["events"]
                following = str(page["next"]) if documents else ""
                events = [_event(one, self.after) for one in documents[:-1]]
                events += [_event(one, following) for one in documents[-1:]]
            for event in events:
                yield from self._mine(event)
                if self.done:
                    return
            if not events:
                return
            self._advance(following)

    def _mine(self, event: Event) -> Iterator[Event]:
        if self.run_id in ("", event.run_id):
            self.done = self.run_id != "" and event.type in ("run_completed", "run_failed", "run_stopped")
            yield event

    @contextlib.contextmanager
    def _parsing(self) -> Generator[None, None, None]:
        """Turns what no coordinator sends into an outage."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as e:
            self.client._unreachable(e)


def _event(document: Json, position: str) -> Event:
    if not isinstance(document["event_type"], str):
        raise TypeError("an event's type is no text")
    return Event(document["event_type"], str(document.get("run_id") or ""), position, document)


def _order(position: str) -> List[Tuple[int, str]]:
    """Makes positions comparable, such as 9-12 and 10-12.1."""
    return [(len(number), number) for number in re.split("[-.]", position)]


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="")


def _number(text: str) -> int:
    return int(text) if len(text) < 16 and text.isascii() and text.isdigit() else 0


def verify_webhook(body: bytes, headers: Mapping[str, str], *secrets: str) -> Webhook:
    """Checks the signature of a request to a callback_url and returns what it says, or raises SignatureError.

    The secrets are those of AO_CALLBACK_SECRET; one that fits is enough. A receiver may see a delivery twice: it
    compares the id.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    webhook_id, at = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
    if not webhook_id or abs(time.time() - _number(at)) > 300:
        raise SignatureError("its id or time is missing, or more than five minutes off")
    for secret in secrets:
        encoded = secret[6:] if secret.startswith("whsec_") else secret
        try:
            key = base64.b64decode(encoded.rstrip("=") + "=" * (-len(encoded.rstrip("=")) % 4), validate=True)
        except ValueError:
            key = b""
        if not key:
            raise SignatureError("a secret is not whsec_ and base64")
        signed = f"{webhook_id}.{at}.".encode() + body
        want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        got = lower.get("webhook-signature", "").split()
        if any(hmac.compare_digest(want.encode(), one.encode()) for one in got):
            document = json.loads(body)
            return Webhook(webhook_id, document["type"], _run(document["data"]))
    raise SignatureError("no signature is by one of the secrets")
