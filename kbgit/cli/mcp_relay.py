"""Standard input and output joined to a server's `/mcp`: each line is a request, each answer a line.

The server keeps nothing between requests, so nothing is kept here but the protocol version that was agreed on.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from threading import Lock
from typing import Any, TextIO

from kbgit.cli.http_client import authorization, opener
from kbgit.mcp.wire import standard_output

_ANSWER_SECONDS = 120.0
_MOST_AT_ONCE = 16
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"(?!=\?)[!-~](?:[ -~]*[!-~])?")
_PARSE_ERROR, _INTERNAL_ERROR = -32700, -32603


class Relay:
    """Asks the server at `url` with `token`; `profile` narrows what the token's profile exposes."""

    def __init__(self, url: str, token: str, *, is_local: bool, profile: str | None) -> None:
        self._url = f"{url}/mcp"
        self._opener = opener(is_local=is_local)
        self._headers = {
            "Authorization": authorization(token),
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **({"Kbgit-Profile": profile} if profile else {}),
        }
        self._version: str | None = None
        self._writing = Lock()

    def run(self) -> None:
        """Relay until standard input ends and everything is answered."""
        with standard_output() as output, ThreadPoolExecutor(_MOST_AT_ONCE) as threads:
            for line in sys.stdin.buffer:
                if not line.strip():
                    continue
                message = _parsed(line)
                if isinstance(message, dict) and message.get("method") == "initialize":
                    self._relay(line, message, output)  # what follows is in the version that this agrees on
                else:
                    threads.submit(self._relay, line, message, output)

    def _relay(self, line: bytes, message: Any, output: TextIO) -> None:  # noqa: ANN401
        for answer in self._answers(line, message):
            with self._writing:
                output.write(json.dumps(answer, separators=(",", ":")) + "\n")
                output.flush()

    def _answers(self, line: bytes, message: Any) -> Iterable[object]:  # noqa: ANN401
        if message is None:
            return [_failed(None, _PARSE_ERROR, "this line is not JSON")]
        fields = message if isinstance(message, dict) else {}
        is_request = "id" in fields and "method" in fields
        try:
            request = urllib.request.Request(self._url, line, self._headers | self._of(fields), method="POST")
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as response:
                answer = _parsed(response.read())
        except urllib.error.HTTPError as error:
            answer = _parsed(error.read())
            if not (isinstance(answer, dict) and "jsonrpc" in answer):
                answer = _failed(fields.get("id"), _INTERNAL_ERROR, f"the server answers {error.code}", answer)
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            answer = _failed(fields.get("id"), _INTERNAL_ERROR, f"no server answers at {self._url}: {reason}")
        if fields.get("method") == "initialize" and isinstance(answer, dict):
            self._version = (answer.get("result") or {}).get("protocolVersion")
        return [answer] if is_request and answer is not None else []

    def _of(self, message: dict[str, Any]) -> dict[str, str]:
        """The headers that repeat what is in the message, as its version of the protocol wants them."""
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if not isinstance(version, str):
            return {} if self._version is None else {"MCP-Protocol-Version": self._version}
        method = str(message.get("method", ""))
        headers = {"MCP-Protocol-Version": _written(version), "Mcp-Method": _written(method)}
        named = params.get(_NAMED.get(method, ""))
        return {**headers, "Mcp-Name": _written(named)} if isinstance(named, str) else headers


def _written(value: str) -> str:
    """A text as the value of a header; what a header cannot hold goes in base64, as the protocol has it."""
    if _PLAIN.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _parsed(text: bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _failed(request_id: object, code: int, message: str, told: object = None) -> dict[str, Any]:
    """An error of the protocol, with what the server said about it in its own form."""
    found: dict[str, Any] = {"code": code, "message": message}
    inner = told.get("error") if isinstance(told, dict) else None
    if isinstance(inner, dict):
        found |= {"message": str(inner.get("message", message)), "data": inner}
    return {"jsonrpc": "2.0", "id": request_id, "error": found}
