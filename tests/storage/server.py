"""A real S3 server on loopback (moto's), and a proxy before it that does what networks and stores do on bad days."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote

KEY, SECRET = "AKIATESTKEY", "planted/Secret+Key0123456789"
_NOT_PASSED_ON = {"connection", "transfer-encoding", "keep-alive", "content-length", "date", "server"}


def error(status: int, code: str) -> tuple[int, bytes]:
    """An answer in the words of S3."""
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>no</Message></Error>'
    return status, body.encode()


class Request:
    """What a rule of the proxy sees."""

    def __init__(self, method: str, path: str, headers: Any) -> None:
        self.method, self.path, self.headers = method, unquote(path), headers
        self.is_list = method == "GET" and ("list-type=2" in path or "comp=list" in path)
        self.is_copy = any(name.lower().endswith("copy-source") for name in headers)
        self.key = "" if self.is_list else self.path.partition("?")[0]


# A rule gets a request and returns None (pass it on), an answer (status, body), or the name of a mishap:
# "cut": the connection ends in the middle of the request's body; "lost": the request is done, its answer never comes;
# "half": half of the answer comes; "heedless": the store does not look at the conditions of a put.
Rule = Callable[[Request], Any]


class Proxy:
    """Stands between a client and the server: `rules` are asked in order, answers come `latency` seconds late."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.latency = 0.0
        self.rules: list[Rule] = []
        self.seen: list[Request] = []
        self.held: str | None = None  # paths like this are answered from memory once they were read or written
        self._answers: dict[tuple[str, str | None], tuple[int, list[tuple[str, str]], bytes]] = {}
        self.stale: dict[str, tuple[int, list[tuple[str, str]], bytes]] | None = None  # listings, as they were
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *arguments: Any) -> None:
                pass

            def answer(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handle(self, handler: Any) -> None:
        request = Request(handler.command, handler.path, handler.headers)
        self.seen.append(request)
        length = int(handler.headers.get("Content-Length") or 0)
        mishap = next((found for rule in list(self.rules) if (found := rule(request)) is not None), None)
        if mishap == "cut":
            handler.rfile.read(length // 2)
            self._hang_up(handler)
            return
        body = handler.rfile.read(length)
        if self.latency:
            time.sleep(self.latency)
        if isinstance(mishap, tuple):
            self._send(handler, mishap[0], [("Content-Type", "application/xml")], mishap[1])
            return
        if mishap == "heedless":
            for name in ("If-None-Match", "If-Match"):
                del handler.headers[name]
        status, headers, content = self._passed_on(request, handler, body)
        if mishap == "lost":
            self._hang_up(handler)
        elif mishap == "half":
            handler.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(content)))]:
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(content[: len(content) // 2])
            self._hang_up(handler)
        else:
            self._send(handler, status, headers, content)

    def _passed_on(self, request: Request, handler: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.stale is not None and request.is_list and request.path in self.stale:
            return self.stale[request.path]
        about = (request.method + request.path, handler.headers.get("Range"))
        if about in self._answers:
            return self._answers[about]
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("connection",)}
        connection.request(request.method, handler.path, body=body or None, headers=headers)
        found = connection.getresponse()
        content = found.read()
        kept = [(name, value) for name, value in found.getheaders() if name.lower() not in _NOT_PASSED_ON]
        if request.method == "HEAD":
            kept.append(("Content-Length", found.getheader("Content-Length") or "0"))
        connection.close()
        if self.stale is not None and request.is_list:
            self.stale[request.path] = found.status, kept, content
        if self.held is not None and found.status in (200, 206) and re.search(self.held, request.path):
            if request.method == "GET":
                self._answers[about] = found.status, kept, content
            elif request.method == "PUT":
                written = [("ETag", found.getheader("ETag") or ""), ("Last-Modified", formatdate(usegmt=True))]
                self._answers["GET" + request.path, None] = found.status, written, body
        return found.status, kept, content

    @staticmethod
    def _send(handler: Any, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        try:
            handler.send_response(status)
            for name, value in headers:
                handler.send_header(name, value)
            if handler.command != "HEAD":
                handler.send_header("Content-Length", str(len(content)))
            elif not any(name == "Content-Length" for name, _ in headers):
                handler.send_header("Content-Length", "0")
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(content)
        except OSError:
            handler.close_connection = True

    @staticmethod
    def _hang_up(handler: Any) -> None:
        handler.close_connection = True
        try:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        handler.connection.close()


def now_and_then(every: int, mishap: Any, method: str = "", pattern: str = "") -> Rule:
    """A rule that lets a mishap happen to one in so many of the requests it is about."""
    count, lock = [0], threading.Lock()

    def rule(request: Request) -> Any:
        if (method and request.method != method) or not re.search(pattern, request.path):
            return None
        with lock:
            count[0] += 1
            return mishap if count[0] % every == 0 else None

    return rule


def once(mishap: Any, method: str = "", pattern: str = "", after: int = 0) -> Rule:
    """A rule that lets a mishap happen one single time, after so many requests of its kind."""
    count, lock = [0], threading.Lock()

    def rule(request: Request) -> Any:
        if (method and request.method != method) or not re.search(pattern, request.path):
            return None
        with lock:
            count[0] += 1
            return mishap if count[0] == after + 1 else None

    return rule


class Server:
    """The server with its proxy, and a bucket."""

    scheme = "s3"
    # What it says when it refuses, with the status, and what dtree says of that.
    refusals: ClassVar = {
        "InvalidAccessKeyId": (403, "the access key is not known there"),
        "SignatureDoesNotMatch": (403, "the secret key is wrong"),
        "ExpiredToken": (400, "the credential has expired"),
        "AccessDenied": (403, "access denied"),
    }

    def __init__(self, port: int, process: int) -> None:
        self.port, self.process, self.bucket = port, process, "bucket"
        self.proxy = self._proxy(port)
        self.put_bucket(self.bucket)

    def _proxy(self, port: int) -> Proxy:
        return Proxy(port)

    def put_bucket(self, name: str) -> None:
        import boto3

        boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name="us-east-1",
        ).create_bucket(Bucket=name)  # fmt: skip

    @property
    def options(self) -> dict[str, str]:
        """Storage options that lead here, without much patience."""
        return {**self._way, "retry_seconds": "20", "max_retries": "6"}

    @property
    def _way(self) -> dict[str, str]:
        return {
            "endpoint": self.proxy.address, "region": "us-east-1", "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
        }  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "AWS_ENDPOINT_URL": self.proxy.address, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }  # fmt: skip

    def quiet(self) -> None:
        """Let everything be well again."""
        self.proxy.rules, self.proxy.latency, self.proxy.stale = [], 0.0, None


@contextmanager
def s3_server(kind: type[Server] = Server) -> Iterator[Any]:
    """moto's server for as long as the block lasts."""
    with started([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "PORT"]) as (port, process):
        server = kind(port, process)
        try:
            yield server
        finally:
            server.proxy.close()


@contextmanager
def started(command: list[str], **environment: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own, so that it takes no time from this one: its port (PORT in `command`) and its
    number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [word.replace("PORT", str(port)) for word in command], env={**os.environ, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        limit = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"{command[0]} did not start"
                assert time.monotonic() < limit, f"{command[0]} does not answer"
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()
