"""Certificates, passwords and configuration of a secured local cluster."""

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, LOGIN_MODULES, Security
from eos_assets.platform.folders import make_folder, write_atomically
from eos_assets.platform.java import find_java
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.running import ADMIN, administrator, authority_file, passwords_file

#: The name in the brokers' certificate, by which they identify each other on the controllers' listener.
BROKER = "CN=eos-broker"
ALIAS = "own"
DAYS = "3650"
NEW_KEY = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", DAYS]


@dataclass(frozen=True)
class BrokerSecurity:
    """SASL/SCRAM over TLS for clients and between brokers, mutual TLS between controllers, and access lists: without an
    entry a principal has no permission."""

    folder: Path

    @property
    def authority(self) -> Path:
        return authority_file(self.folder)

    @property
    def keystore(self) -> Path:
        return self.folder / "broker.p12"

    @property
    def _passwords(self) -> Path:
        return passwords_file(self.folder)

    @property
    def _scram(self) -> Path:
        """The administrator's credentials for `kafka-storage format`: in a file, as command lines are public."""
        return self.folder / "scram"

    def exists(self) -> bool:
        return os.path.exists(self._passwords)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self) -> None:
        """Create all of it once. Only its owner may read the folder."""
        if self.exists():
            return
        make_folder(self.folder).chmod(0o700)
        passwords = {"admin": secrets.token_urlsafe(24), "keystore": secrets.token_urlsafe(24)}
        write_atomically(self.folder / "storepass", passwords["keystore"])
        self._create_certificates()
        credentials = f"{DEFAULT_MECHANISM}=[name={ADMIN},password={passwords['admin']}]"
        write_atomically(self._scram, f"--add-scram\n{credentials}\n")
        write_atomically(self._passwords, json.dumps(passwords))  # last: it marks the folder as complete

    def _create_certificates(self) -> None:
        authority = self.folder / "ca.p12"
        for leftover in (authority, self.authority, self.keystore):
            leftover.unlink(missing_ok=True)
        subject = ["-alias", "ca", "-dname", "CN=eos local authority", "-ext", "bc:c"]
        self._keytool(authority, *NEW_KEY, *subject)
        self._keytool(authority, "-exportcert", "-rfc", "-alias", "ca", "-file", str(self.authority))
        self.issue(self.keystore, BROKER)

    def issue(self, store: Path, subject: str) -> None:
        """Create a key store with a new key, its certificate for this machine, and the authority that signed it."""
        request, chain = store.with_suffix(".csr"), store.with_suffix(".pem")
        self._keytool(store, *NEW_KEY, "-alias", ALIAS, "-dname", subject)
        self._keytool(store, "-certreq", "-alias", ALIAS, "-file", str(request))
        names = f"san=ip:{LOOPBACK},dns:localhost"
        sign = ["-gencert", "-rfc", "-alias", "ca", "-validity", DAYS, "-ext", names]
        self._keytool(self.folder / "ca.p12", *sign, "-infile", str(request), "-outfile", str(chain))
        chain.write_text(chain.read_text() + self.authority.read_text())
        self._keytool(store, "-importcert", "-noprompt", "-alias", ALIAS, "-file", str(chain))

    def _keytool(self, store: Path, *command: str) -> None:
        tool = find_java().home / "bin" / "keytool"
        access = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass:file", str(self.folder / "storepass")]
        run = subprocess.run([str(tool), *command, *access], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise EosError(
                f"The certificates for Kafka could not be created: {(run.stdout + run.stderr).strip()[-500:]}",
                f"Check that {tool} works, remove {self.folder} and start again.",
            )

    def passwords(self) -> dict[str, str]:
        passwords: dict[str, str] = json.loads(self._passwords.read_text())
        return passwords

    def client(self) -> Security:
        """The administrator, who has every permission."""
        return administrator(self.folder)

    def format_arguments(self) -> list[str]:
        return [f"@{self._scram}"]

    def properties(self, address: str, controller: str) -> dict[str, object]:
        """The properties of a secured broker, in addition to or instead of those of an open one."""
        passwords = self.passwords()
        login = f'{LOGIN_MODULES[DEFAULT_MECHANISM]} required username="{ADMIN}" password="{passwords["admin"]}";'
        return {
            "listeners": f"CLIENT://{address},CONTROLLER://{controller}",
            "advertised.listeners": f"CLIENT://{address}",
            "listener.security.protocol.map": "CLIENT:SASL_SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "CLIENT",
            "sasl.enabled.mechanisms": DEFAULT_MECHANISM,
            "sasl.mechanism.inter.broker.protocol": DEFAULT_MECHANISM,
            f"listener.name.client.{DEFAULT_MECHANISM.lower()}.sasl.jaas.config": login,
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self.keystore,
            "ssl.keystore.password": passwords["keystore"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{ADMIN};User:{BROKER}",
        }
