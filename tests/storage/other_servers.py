"""The two other kinds of store: Azure's by Azurite (Microsoft's emulator, from npm), Google's by a translation.

`npm install --prefix .stores azurite` puts Azurite where it is looked for; DTREE_AZURITE names another place. For
Google's there is no server to be had that speaks its XML interface, which obstore uses, with conditions: so the proxy
answers as that interface is documented to (generations in the place of ETags) and keeps the objects in moto. This shows
that dtree and obstore do right by generations; not that Google does what it documents.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar

from tests.storage.server import SECRET, Proxy, Request, Server, error, s3_server, started

_ACCOUNT = "dtreetests"
# moto looks for a signature of S3's kind, not at what it says.
_SIGNED = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=any"


class Azure(Server):
    """A container of Azurite's; the secret that tests plant is the account's key."""

    scheme = "az"
    refusals: ClassVar = {
        "AuthenticationFailed": (403, "the account key is wrong"),
        "AuthorizationPermissionMismatch": (403, "access denied"),
    }

    def put_bucket(self, name: str) -> None:
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        said = "".join(f"{key}:{headers[key]}\n" for key in sorted(headers))
        text = "PUT" + "\n" * 12 + said + f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        signed = hmac.new(base64.b64decode(SECRET), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("PUT", f"/{_ACCOUNT}/{name}?restype=container", headers={**headers, "Content-Length": "0"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()

    @property
    def _way(self) -> dict[str, str]:
        return {
            "endpoint": f"{self.proxy.address}/{_ACCOUNT}", "azure_storage_account_name": _ACCOUNT,
            "azure_storage_account_key": SECRET,
        }  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ENDPOINT": f"{self.proxy.address}/{_ACCOUNT}", "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": SECRET,
        }  # fmt: skip


class Google(Server):
    """moto behind a proxy that speaks Google's dialect."""

    scheme = "gs"
    refusals: ClassVar = {
        "SignatureDoesNotMatch": (403, "the secret key is wrong"),
        "AccessDenied": (403, "access denied"),
    }

    def _proxy(self, port: int) -> Proxy:
        return GoogleProxy(port)

    @property
    def _account(self) -> str:
        account = {"client_email": "tests", "private_key_id": "1", "private_key": SECRET, "disable_oauth": True}
        return json.dumps({**account, "gcs_base_url": self.proxy.address})

    @property
    def _way(self) -> dict[str, str]:
        return {"google_base_url": self.proxy.address, "google_service_account_key": self._account}

    @property
    def environment(self) -> dict[str, str]:
        return {"GOOGLE_BASE_URL": self.proxy.address, "GOOGLE_SERVICE_ACCOUNT_KEY": self._account}


class GoogleProxy(Proxy):
    """Every put makes another generation of an object; `x-goog-if-generation-match: 0` asks that there is none."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.generations: dict[str, int] = {}
        self._count, self._one_by_one = 1000, threading.Lock()

    def _passed_on(self, request: Request, handler: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers, key = handler.headers, request.key
        del headers["Authorization"]
        headers["Authorization"] = _SIGNED
        source = headers.get("x-goog-copy-source")
        if source is not None:
            headers["x-amz-copy-source"] = source
        if request.method not in ("PUT", "POST", "DELETE"):
            return self._with_generation(key, super()._passed_on(request, handler, body))
        with self._one_by_one:
            wanted = headers.get("x-goog-if-generation-match")
            if wanted is not None and int(wanted) != self.generations.get(key, 0):
                status, content = error(412, "PreconditionFailed")
                return status, [("Content-Type", "application/xml")], content
            answer = super()._passed_on(request, handler, body)
            if answer[0] < 300 and request.method == "DELETE":
                self.generations.pop(key, None)
            elif answer[0] < 300:
                self._count += 1
                self.generations[key] = self._count
            return self._with_generation(key, answer)

    def _with_generation(self, key: str, answer: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        status, headers, content = answer
        return status, [*headers, ("x-goog-generation", str(self.generations.get(key, 0)))], content


def azurite() -> str | None:
    """Where Azurite is, if it is installed."""
    here = Path(__file__).resolve().parents[2] / ".stores/node_modules/.bin/azurite-blob"
    named = os.environ.get("DTREE_AZURITE") or shutil.which("azurite-blob")
    return named or (str(here) if here.exists() else None)


@contextmanager
def server_of(kind: str) -> Iterator[Any]:
    """A server of this kind for as long as the block lasts."""
    if kind != "az":
        with s3_server(Google if kind == "gs" else Server) as server:
            yield server
        return
    command = [str(azurite()), "--blobHost", "127.0.0.1", "--blobPort", "PORT", "--inMemoryPersistence", "--silent"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with started(command, AZURITE_ACCOUNTS=f"{_ACCOUNT}:{SECRET}") as (port, process):
        azure = Azure(port, process)
        try:
            yield azure
        finally:
            azure.proxy.close()
