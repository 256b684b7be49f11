"""Environment variables in, one typed `Settings` out; an unknown or malformed one is refused by its name."""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eos_assets.errors import EosError
from eos_assets.files.access import Access

PREFIX = "EOS_"

PROFILES = ("dev", "test", "production")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SPARKS = ("in-process", "connect", "local[*,4]", "spark://host:port", "sc://host:port", "yarn", "k8s://https://host")

#: Where a Spark Connect server listens, unless it is told otherwise.
CONNECT_PORT = 15002


@dataclass(frozen=True)
class Setting:
    """One environment variable: its default and meaning in words, and what it may be where that is a short list."""

    name: str
    default: str
    meaning: str
    choices: tuple[str, ...] = ()
    secret: bool = False


#: Every variable. `eos settings` prints this table, and docs/configuration.md holds it.
TABLE = (
    Setting(
        "EOS_PROFILE",
        "dev",
        "dev: one broker is fine. test: likewise, and sensors stay off. production: 3 replicas, min ISR 2 and no "
        "unclean election, whatever a pipeline declares",
        PROFILES,
    ),
    Setting("EOS_HOME", ".eos in the project", "folder for jars, server data, logs and state"),
    Setting("EOS_LAKE", "lake in EOS_HOME", "folder or address of the Delta tables; a cluster must reach it, too"),
    Setting("EOS_BOOTSTRAP_SERVERS", "those of `eos up`", "the Kafka cluster to use, host:port,…"),
    Setting("EOS_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT", "how to speak to the brokers", PROTOCOLS),
    Setting("EOS_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512", "how to log in, with a SASL_ protocol", MECHANISMS),
    Setting("EOS_KAFKA_USERNAME", "none", "who logs in, with a SASL_ protocol"),
    Setting("EOS_KAFKA_PASSWORD", "none", "the password of that user", secret=True),
    Setting("EOS_KAFKA_CA_FILE", "the system's", "PEM file of the authority that signed the brokers' certificates"),
    Setting("EOS_KAFKA_CERTIFICATE_FILE", "none", "PEM file of the client's certificate chain, where brokers want one"),
    Setting("EOS_KAFKA_KEY_FILE", "none", "PEM file (PKCS#8) of the key of that certificate"),
    Setting("EOS_KAFKA_KEY_PASSWORD", "none", "the password of that key", secret=True),
    Setting(
        "EOS_SPARK", "`eos up`, else in-process", "where Spark runs; connect is the server of `eos up`", choices=SPARKS
    ),
    Setting("EOS_SPARK_PYTHON", "this Python", "the Python of the executors of a cluster, as a path there"),
    Setting("EOS_ACCEPT_SPARK", "none", "a Spark version, as 4.3, to run on although it is not one of the tested ones"),
    Setting("EOS_PY_FILES", "none", "more .py, .zip or .whl files for the executors, comma separated"),
    Setting("EOS_JARS_DIR", "jars in EOS_HOME", "folder of the jars"),
    Setting("EOS_IVY_SETTINGS", "Ivy's own", "an Ivy settings file for a mirror or proxy"),
    Setting("EOS_DAGSTER_PORT", "3000", "port of the Dagster webserver that `eos up` starts"),
    Setting("EOS_KAFKA_PORT", "9092", "first port of the brokers that `eos up` starts; each broker takes two"),
    Setting("EOS_SPARK_CONNECT_PORT", "15002", "port of the Spark Connect server that `eos up` starts"),
    Setting("EOS_FILES_ROOT", "none", "folder below which `file:` references may lead; without it none is followed"),
    Setting("EOS_FILES_HOSTS", "none", "hosts that http(s) references may name: host, host:port, host:* or networks"),
    Setting("EOS_FILES_STORES", "none", "beginnings of other addresses to fetch through fsspec, as s3://bucket/in/"),
    Setting("EOS_FILES_MAX_BYTES", "4 GiB", "the largest file that is fetched"),
    Setting("EOS_FILES_MAX_UNPACKED_BYTES", "16 GiB", "the largest file after unpacking"),
    Setting("EOS_FILES_MAX_RATIO", "200", "how many times larger a file may become by unpacking"),
    Setting("EOS_FILES_MAX_SECONDS", "600", "how long fetching and reading one file may take, in seconds"),
    Setting("EOS_STACK", "none", "set by `eos up` in the servers it starts, so that `eos down` finds exactly them"),
)
NAMES = tuple(setting.name for setting in TABLE)


@dataclass(frozen=True)
class Settings:
    """The settings of this process; `load` is the only reader of the environment. Secrets are in no repr."""

    home: Path
    jars_dir: Path
    ivy_settings: Path | None
    bootstrap_servers: str | None
    spark: str | None
    lake: str
    dagster_port: int
    kafka_port: int
    spark_connect_port: int
    files: Access
    profile: str = "dev"
    kafka_security_protocol: str = "PLAINTEXT"
    kafka_sasl_mechanism: str | None = None
    kafka_username: str | None = None
    kafka_password: str | None = field(default=None, repr=False)
    kafka_ca_file: Path | None = None
    kafka_certificate_file: Path | None = None
    kafka_key_file: Path | None = None
    kafka_key_password: str | None = field(default=None, repr=False)
    spark_python: str | None = None
    accept_spark: str | None = None
    py_files: tuple[Path, ...] = ()

    @staticmethod
    def load(environ: Mapping[str, str] = os.environ) -> "Settings":
        refuse_unknown(environ)
        home = Path(environ.get("EOS_HOME") or project_root(Path.cwd()) / ".eos").absolute()
        settings = Settings(
            home=home,
            jars_dir=Path(environ.get("EOS_JARS_DIR") or home / "jars").absolute(),
            ivy_settings=file(environ, "EOS_IVY_SETTINGS"),
            bootstrap_servers=servers(environ, "EOS_BOOTSTRAP_SERVERS"),
            spark=spark(environ, "EOS_SPARK"),
            lake=address(environ, "EOS_LAKE", home / "lake"),
            dagster_port=port(environ, "EOS_DAGSTER_PORT", 3000),
            kafka_port=port(environ, "EOS_KAFKA_PORT", 9092),
            spark_connect_port=port(environ, "EOS_SPARK_CONNECT_PORT", CONNECT_PORT),
            files=Access.load(environ),
            profile=choice(environ, "EOS_PROFILE", PROFILES) or "dev",
            kafka_security_protocol=choice(environ, "EOS_KAFKA_SECURITY_PROTOCOL", PROTOCOLS) or "PLAINTEXT",
            kafka_sasl_mechanism=choice(environ, "EOS_KAFKA_SASL_MECHANISM", MECHANISMS),
            kafka_username=environ.get("EOS_KAFKA_USERNAME") or None,
            kafka_password=environ.get("EOS_KAFKA_PASSWORD") or None,
            kafka_ca_file=file(environ, "EOS_KAFKA_CA_FILE"),
            kafka_certificate_file=file(environ, "EOS_KAFKA_CERTIFICATE_FILE"),
            kafka_key_file=file(environ, "EOS_KAFKA_KEY_FILE"),
            kafka_key_password=environ.get("EOS_KAFKA_KEY_PASSWORD") or None,
            spark_python=environ.get("EOS_SPARK_PYTHON") or None,
            accept_spark=version(environ, "EOS_ACCEPT_SPARK"),
            py_files=files(environ, "EOS_PY_FILES"),
        )
        refuse_inconsistent(settings)
        refuse_idle_python(settings)
        return settings


def shown(text: str) -> str:
    """An address as it may be printed: one of Spark Connect may hold a token."""
    return re.sub(r"(token=)[^;]*", r"\1(hidden)", text)


def address(environ: Mapping[str, str], name: str, default: Path) -> str:
    """An address as it is, a folder as an absolute path: servers work elsewhere."""
    text = environ.get(name) or str(default)
    if "://" in text:
        return text
    slip = re.match(r"([A-Za-z][\w+.-]+):/*", text)
    if slip:
        raise EosError(
            f"{name}={text} is neither a folder nor an address.",
            f"Did you mean {slip[1]}://{text[slip.end() :]}? An address has two slashes behind its colon.",
        )
    return str(Path(text).absolute())


def refuse_idle_python(settings: Settings) -> None:
    """A Spark Connect server has chosen the Python of its executors when it was started."""
    if settings.spark_python and (settings.spark or "").startswith("sc://"):
        raise EosError(
            f"EOS_SPARK_PYTHON is set, but EOS_SPARK={shown(settings.spark or '')} does not use it.",
            "Set it where that server is started, and unset EOS_SPARK_PYTHON here.",
        )


def refuse_inconsistent(settings: Settings) -> None:
    """A setting that would be ignored in silence, or that is missing, is refused by its name."""
    protocol = settings.kafka_security_protocol
    sasl, encrypted = protocol.startswith("SASL_"), protocol.endswith("SSL")
    of_sasl = {
        "EOS_KAFKA_SASL_MECHANISM": settings.kafka_sasl_mechanism,
        "EOS_KAFKA_USERNAME": settings.kafka_username,
        "EOS_KAFKA_PASSWORD": settings.kafka_password,
    }
    of_tls = {
        "EOS_KAFKA_CA_FILE": settings.kafka_ca_file,
        "EOS_KAFKA_CERTIFICATE_FILE": settings.kafka_certificate_file,
        "EOS_KAFKA_KEY_FILE": settings.kafka_key_file,
        "EOS_KAFKA_KEY_PASSWORD": settings.kafka_key_password,
    }
    for used, of_it, wanted in ((sasl, of_sasl, "SASL_SSL"), (encrypted, of_tls, "SASL_SSL or SSL")):
        idle = [name for name, value in of_it.items() if value and not used]
        if idle:
            raise EosError(
                f"{idle[0]} is set, but EOS_KAFKA_SECURITY_PROTOCOL={protocol} does not use it.",
                f"Set EOS_KAFKA_SECURITY_PROTOCOL to {wanted}, or unset {idle[0]}.",
            )
    for name in ("EOS_KAFKA_USERNAME", "EOS_KAFKA_PASSWORD"):
        if sasl and not of_sasl[name]:
            raise EosError(f"EOS_KAFKA_SECURITY_PROTOCOL={protocol} needs {name}.", f"Set {name}.")
    if bool(settings.kafka_certificate_file) != bool(settings.kafka_key_file):
        raise EosError(
            "Of EOS_KAFKA_CERTIFICATE_FILE and EOS_KAFKA_KEY_FILE only one is set.", "Set both, or none of them."
        )
    if protocol == "SASL_PLAINTEXT" and settings.kafka_sasl_mechanism == "PLAIN" and settings.profile == "production":
        raise EosError(
            "EOS_KAFKA_SASL_MECHANISM=PLAIN over SASL_PLAINTEXT sends the password in clear.",
            "Set EOS_KAFKA_SECURITY_PROTOCOL to SASL_SSL, or the mechanism to SCRAM-SHA-512.",
        )


def refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(PREFIX) and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise EosError(
                f"The environment variable {name} is not a setting of eos_assets.",
                f"{hint}`eos settings` lists all of them; unset {name}.",
            )


def choice(environ: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    """One of a few words, as it is written here."""
    text = environ.get(name)
    if not text or text in choices:
        return text or None
    raise EosError(f"{name}={text} is none of its values.", f"{hint(text, choices)}Use {' or '.join(choices)}.")


def hint(text: str, choices: tuple[str, ...]) -> str:
    """The nearest right value. Letters of the wrong size, and '_' for '-', are the usual slips."""
    plain = {re.sub(r"[_\s]", "-", choice).lower(): choice for choice in choices}
    near = difflib.get_close_matches(re.sub(r"[_\s]", "-", text).lower(), plain, n=1, cutoff=0.5)
    return f"Did you mean {plain[near[0]]}? " if near else ""


def servers(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name)
    for one in (text or "").split(",") if text else ():
        if not host_and_port(one.strip()):
            raise EosError(f"{name}={text} is no list of brokers: {one.strip()!r}.", f"Set {name} to host:port,….")
    return text or None


def host_and_port(text: str) -> bool:
    found = re.fullmatch(r"(\[[\da-fA-F:]+\]|[\w.-]+):(\d{1,5})", text)
    return bool(found and 1 <= int(found[2]) <= 65535)


def spark(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name)
    if not text or is_spark(text):
        return text or None
    raise EosError(f"{name}={shown(text)} is no address of a Spark.", f"{hint(text, SPARKS)}Use {', '.join(SPARKS)}.")


def is_spark(text: str) -> bool:
    """Masters of a standalone cluster, of which there may be several, have a port; a Connect server has a usual one."""
    if text.startswith("spark://"):
        return all(host_and_port(one) for one in text.removeprefix("spark://").split(","))
    if text.startswith("sc://"):
        server = text.removeprefix("sc://").partition("/")[0]
        return host_and_port(server) or host_and_port(f"{server}:{CONNECT_PORT}")
    return bool(re.fullmatch(r"in-process|connect|yarn|local(\[(\d+|\*)(,\d+)?\])?|k8s://.+", text))


def file(environ: Mapping[str, str], name: str) -> Path | None:
    """A file that is there and may be read."""
    text = environ.get(name)
    if not text:
        return None
    path = Path(text).absolute()
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise EosError(f"{name}={text} is no file that can be read.", f"Correct {name}, or unset it.")
    return path


def version(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name) or None
    if text is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise EosError(f"{name}={text} is not a version.", f"Set {name} to a minor version of Spark, as 4.3.")
    return text


def files(environ: Mapping[str, str], name: str) -> tuple[Path, ...]:
    names = [text.strip() for text in (environ.get(name) or "").split(",") if text.strip()]
    found = [file({name: text}, name) for text in names]
    for path in found:
        if path and path.suffix not in (".py", ".zip", ".whl", ".egg"):
            raise EosError(f"{name}: {path} is no Python code.", f"Let {name} name .py, .zip or .whl files.")
    return tuple(path for path in found if path)


def port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise EosError(f"{name}={text} is not a port.", f"Set {name} to a number from 1 to 65535, or unset it.")
    return int(text)


def project_root(folder: Path) -> Path:
    """The nearest folder above that holds a pyproject.toml, else the folder itself."""
    for candidate in (folder, *folder.parents):
        if os.path.isfile(candidate / "pyproject.toml"):
            return candidate
    return folder


def markdown_table() -> str:
    """The table of docs/configuration.md."""
    lines = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for setting in TABLE:
        meaning = setting.meaning
        if setting.choices:
            meaning += ": " + ", ".join(f"`{choice}`" for choice in setting.choices)
        if setting.secret:
            meaning += "; a secret"
        lines.append(f"| `{setting.name}` | {setting.default} | {meaning} |")
    return "\n".join(lines) + "\n"
