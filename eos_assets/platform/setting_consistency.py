"""Refuses settings that contradict each other, lack another one, or would be ignored without a message."""

from typing import TYPE_CHECKING

from eos_assets.errors import EosError
from eos_assets.kafka.auth import DEFAULT_MECHANISM, OAUTH
from eos_assets.platform.setting_types import hide_token, variable_of

if TYPE_CHECKING:
    from eos_assets.platform.settings import Settings

PASSWORD_SETTINGS = ("kafka_username", "kafka_password")
OAUTH_SETTINGS = ("kafka_oauth_token_url", "kafka_oauth_client_id", "kafka_oauth_client_secret", "kafka_oauth_scope")
SASL_SETTINGS = ("kafka_sasl_mechanism", *PASSWORD_SETTINGS, *OAUTH_SETTINGS)
#: The mechanisms that leave their secret readable to who reads the connection, and that secret.
IN_CLEAR = {"PLAIN": "password", OAUTH: "token"}
TLS_SETTINGS = ("kafka_ca_file", "kafka_certificate_file", "kafka_key_file", "kafka_key_password")


def check(settings: "Settings") -> None:
    check_used_by_protocol(settings)
    check_login(settings)
    check_certificate(settings)
    check_spark_python(settings)


def check_used_by_protocol(settings: "Settings") -> None:
    """Refuse credentials that the security protocol does not use: they would be ignored."""
    protocol = settings.kafka_security_protocol
    sasl, encrypted = protocol.startswith("SASL_"), protocol.endswith("SSL")
    for used, fields, needed in ((sasl, SASL_SETTINGS, "SASL_SSL"), (encrypted, TLS_SETTINGS, "SASL_SSL or SSL")):
        unused = [variable_of(field) for field in fields if getattr(settings, field) and not used]
        if unused:
            raise EosError(
                f"{unused[0]} is set, but EOS_KAFKA_SECURITY_PROTOCOL={protocol} does not use it.",
                f"Set EOS_KAFKA_SECURITY_PROTOCOL to {needed}, or unset {unused[0]}.",
            )


def check_login(settings: "Settings") -> None:
    protocol = settings.kafka_security_protocol
    if not protocol.startswith("SASL_"):
        return
    oauth = settings.kafka_sasl_mechanism == OAUTH
    needed, unused = (OAUTH_SETTINGS[:3], PASSWORD_SETTINGS) if oauth else (PASSWORD_SETTINGS, OAUTH_SETTINGS)
    mechanism = f"EOS_KAFKA_SASL_MECHANISM={settings.kafka_sasl_mechanism or DEFAULT_MECHANISM}"
    for name in (variable_of(field) for field in needed if not getattr(settings, field)):
        chosen = mechanism if oauth else f"EOS_KAFKA_SECURITY_PROTOCOL={protocol}"
        raise EosError(f"{chosen} needs {name}.", f"Set {name}.")
    for name in (variable_of(field) for field in unused if getattr(settings, field)):
        other = DEFAULT_MECHANISM if oauth else OAUTH
        raise EosError(
            f"{name} is set, but {mechanism} does not use it.",
            f"Set EOS_KAFKA_SASL_MECHANISM to {other}, or unset {name}.",
        )
    if settings.profile == "production":
        refuse_clear_text(settings)


def refuse_clear_text(settings: "Settings") -> None:
    """A password or token that others can read on the network is theirs, too."""
    if settings.kafka_security_protocol == "SASL_PLAINTEXT" and settings.kafka_sasl_mechanism in IN_CLEAR:
        raise EosError(
            f"EOS_KAFKA_SASL_MECHANISM={settings.kafka_sasl_mechanism} over SASL_PLAINTEXT sends the "
            f"{IN_CLEAR[settings.kafka_sasl_mechanism]} in clear.",
            "Set EOS_KAFKA_SECURITY_PROTOCOL to SASL_SSL, or the mechanism to SCRAM-SHA-512.",
        )
    if (settings.kafka_oauth_token_url or "").startswith("http:"):
        raise EosError(
            "EOS_KAFKA_OAUTH_TOKEN_URL without TLS sends the secret of the client in clear.",
            "Use the https address of the token endpoint.",
        )


def check_certificate(settings: "Settings") -> None:
    if bool(settings.kafka_certificate_file) != bool(settings.kafka_key_file):
        raise EosError(
            "Only one of EOS_KAFKA_CERTIFICATE_FILE and EOS_KAFKA_KEY_FILE is set.", "Set both, or neither of them."
        )


def check_spark_python(settings: "Settings") -> None:
    """Refuse a Python for a Spark Connect server: that of its executors is chosen where the server is started."""
    if settings.spark_python and (settings.spark or "").startswith("sc://"):
        raise EosError(
            f"EOS_SPARK_PYTHON is set, but EOS_SPARK={hide_token(settings.spark or '')} does not use it.",
            "Set it where that server is started, and unset EOS_SPARK_PYTHON here.",
        )
