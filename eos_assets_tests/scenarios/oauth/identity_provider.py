"""An identity provider on loopback: a token endpoint for one client, and the key by which brokers check its tokens."""

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from eos_assets.platform.loopback import LOOPBACK

CLIENT = "squares"
AUDIENCE = "kafka"
SCOPE = "records"
SECRET = "kanarienvogel-oauth-4711"


class IdentityProvider:
    """Grants tokens that are signed with an RSA key of this test. Python's library has none, but Java does."""

    def __init__(self, spark: SparkSession) -> None:
        self.key = RsaKey(spark)
        self.granted = 0
        self.refused = 0
        self.server = ThreadingHTTPServer((LOOPBACK, 0), type("Endpoints", (Endpoints,), {"provider": self}))
        self.address = f"http://{LOOPBACK}:{self.server.server_port}"
        self.token_url, self.keys_url = f"{self.address}/token", f"{self.address}/keys"
        self.token = self.key.sign(
            {
                "sub": CLIENT,
                "iss": self.address,
                "aud": AUDIENCE,
                "scope": SCOPE,
                "iat": int(time.time()),
                "exp": int(time.time()) + 3600,
            }
        )
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Endpoints(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def do_GET(self) -> None:
        """The public key."""
        self.answer(200, {"keys": [self.provider.key.public()]})

    def do_POST(self) -> None:
        """A token, for the right secret."""
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = (self.headers["Authorization"], form.get("grant_type"), form.get("scope"))
        if asked != (f"Basic {login}", ["client_credentials"], [SCOPE]):
            self.provider.refused += 1
            self.answer(401, {"error": "invalid_client"})
            return
        self.provider.granted += 1
        self.answer(200, {"access_token": self.provider.token, "token_type": "Bearer", "expires_in": 3600})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class RsaKey:
    """A key pair in the JVM of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        self.java = gateway.jvm.java
        generator = self.java.security.KeyPairGenerator.getInstance("RSA")
        generator.initialize(2048)
        self.pair = generator.generateKeyPair()
        # The classes of the keys are not public, so the number is taken from the interface.
        specification = self.java.security.KeyFactory.getInstance("RSA").getKeySpec(
            self.pair.getPublic(), self.java.lang.Class.forName("java.security.spec.RSAPublicKeySpec")
        )
        self.modulus = bytes(specification.getModulus().toByteArray()).lstrip(b"\x00")
        self.exponent = bytes(specification.getPublicExponent().toByteArray())

    def public(self) -> dict[str, str]:
        numbers = {"n": encoded(self.modulus), "e": encoded(self.exponent)}
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "test", **numbers}

    def sign(self, claims: dict[str, Any]) -> str:
        """A JSON web token."""
        header = {"alg": "RS256", "typ": "JWT", "kid": "test"}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self.java.security.Signature.getInstance("SHA256withRSA")
        signature.initSign(self.pair.getPrivate())
        signature.update(text.encode())
        return f"{text}.{encoded(bytes(signature.sign()))}"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
