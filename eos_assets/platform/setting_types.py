"""The types of settings: how each is written in the environment, and the error for a value that is not valid."""

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from eos_assets.errors import EosError
from eos_assets.files.access import Host, parse_host, parse_store

PREFIX = "EOS_"
#: Where a Spark Connect server listens by default.
CONNECT_PORT = 15002
SPARK_ADDRESSES = (
    "in-process",
    "connect",
    "local[*,4]",
    "spark://host:port",
    "sc://host:port",
    "yarn",
    "k8s://https://host",
)

Profile = Literal["dev", "test", "production"]
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@dataclass(frozen=True)
class DefaultText:
    """The description of a default that the value itself does not show."""

    text: str


def variable_of(field: str) -> str:
    """The environment variable of a field of `Settings`."""
    return PREFIX + field.upper()


def variable(info: ValidationInfo) -> str:
    """The environment variable that is being validated."""
    return variable_of(info.field_name or "")


def hide_token(address: str) -> str:
    """An address of Spark Connect as it may be printed: without its token."""
    return re.sub(r"(token=)[^;]*", r"\1(hidden)", address)


def suggest(text: str, choices: Iterable[str]) -> str:
    """The nearest choice. Its case, and '_' for '-', do not matter."""
    plain = {re.sub(r"[_\s]", "-", choice).lower(): choice for choice in choices}
    near = difflib.get_close_matches(re.sub(r"[_\s]", "-", text).lower(), plain, n=1, cutoff=0.5)
    return f"Did you mean {plain[near[0]]}? " if near else ""


def parse_port(text: str, info: ValidationInfo) -> int:
    name = variable(info)
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise EosError(f"{name}={text} is not a port.", f"Set {name} to a number from 1 to 65535, or unset it.")
    return int(text)


def parse_limit(text: str, info: ValidationInfo) -> int:
    name = variable(info)
    if not text.isdecimal() or int(text) < 1:
        raise EosError(f"{name}={text} is not a limit.", f"Set {name} to an integer of at least 1, or unset it.")
    return int(text)


def check_version(text: str, info: ValidationInfo) -> str:
    name = variable(info)
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise EosError(f"{name}={text} is not a version.", f"Set {name} to a minor version of Spark, such as 4.3.")
    return text


def check_readable(path: Path, info: ValidationInfo) -> Path:
    name = variable(info)
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise EosError(f"{name}={path} is not a readable file.", f"Correct {name}, or unset it.")
    return path.absolute()


def split_list(text: str) -> list[str]:
    """The items of a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_modules(text: str, info: ValidationInfo) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(split_list(text)))
    check_module_names(names, variable(info))
    return names


def check_module_names(names: Iterable[str], place: str) -> None:
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise EosError(
                f"{place}: {name} is not the name of a module.", "Write it as in `import`: my.module, not my/module.py."
            )


def parse_code_files(text: str, info: ValidationInfo) -> tuple[Path, ...]:
    paths = tuple(check_readable(Path(item), info) for item in split_list(text))
    for path in paths:
        if path.suffix not in (".py", ".zip", ".whl", ".egg"):
            raise EosError(
                f"{variable(info)}: {path} is not Python code.", f"List .py, .zip or .whl files in {variable(info)}."
            )
    return paths


def parse_hosts(text: str) -> tuple[Host, ...]:
    return tuple(parse_host(item) for item in split_list(text))


def parse_stores(text: str) -> tuple[str, ...]:
    return tuple(parse_store(item) for item in split_list(text))


def is_host_and_port(text: str) -> bool:
    match = re.fullmatch(r"(\[[\da-fA-F:]+\]|[\w.-]+):(\d{1,5})", text)
    return bool(match and 1 <= int(match[2]) <= 65535)


def check_brokers(text: str, info: ValidationInfo) -> str:
    for broker in text.split(","):
        if not is_host_and_port(broker.strip()):
            raise EosError(
                f"{variable(info)}={text} is not a list of brokers: {broker.strip()!r}.",
                f"Set {variable(info)} to host:port,….",
            )
    return text


def is_spark_address(text: str) -> bool:
    """Each master of a standalone cluster has a port; for a Connect server it may be left out."""
    if text.startswith("spark://"):
        return all(is_host_and_port(master) for master in text.removeprefix("spark://").split(","))
    if text.startswith("sc://"):
        server = text.removeprefix("sc://").partition("/")[0]
        return is_host_and_port(server) or is_host_and_port(f"{server}:{CONNECT_PORT}")
    return bool(re.fullmatch(r"in-process|connect|yarn|local(\[(\d+|\*)(,\d+)?\])?|k8s://.+", text))


def check_url(text: str, info: ValidationInfo) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        name = variable(info)
        raise EosError(f"{name} is not an http(s) address without a user.", f"Set {name} to https://host/path.")
    return text


def check_spark_address(text: str, info: ValidationInfo) -> str:
    if not is_spark_address(text):
        raise EosError(
            f"{variable(info)}={hide_token(text)} is not an address of Spark.",
            f"{suggest(text, SPARK_ADDRESSES)}Use {', '.join(SPARK_ADDRESSES)}.",
        )
    return text


def check_alert_channel(target: SecretStr, info: ValidationInfo) -> SecretStr:
    """The value is not shown: the URL of a webhook often holds its secret."""
    if not re.fullmatch(r"https?://[^\s/]+\S*|[A-Za-z_][\w.]*:[A-Za-z_]\w*", target.get_secret_value()):
        raise EosError(
            f"{variable(info)} is neither a function nor the URL of a webhook.",
            f"Set {variable(info)} to module:function or https://…, or unset it.",
        )
    return target


def check_lake_address(text: str, info: ValidationInfo) -> str:
    """Keep an address, and make a folder absolute: servers run in another working directory."""
    if "://" in text:
        return text
    slip = re.match(r"([A-Za-z][\w+.-]+):/*", text)
    if slip:
        raise EosError(
            f"{variable(info)}={text} is neither a folder nor an address.",
            f"Did you mean {slip[1]}://{text[slip.end() :]}? An address has two slashes after its colon.",
        )
    return str(Path(text).absolute())


AlertChannel = Annotated[SecretStr, AfterValidator(check_alert_channel)]
Folder = Annotated[Path, AfterValidator(Path.absolute)]
ReadableFile = Annotated[Path, AfterValidator(check_readable)]
CodeFiles = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(parse_code_files)]
Modules = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_modules)]
Hosts = Annotated[tuple[Host, ...], NoDecode, BeforeValidator(parse_hosts)]
Stores = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_stores)]
Port = Annotated[int, BeforeValidator(parse_port)]
Limit = Annotated[int, BeforeValidator(parse_limit)]
Brokers = Annotated[str, AfterValidator(check_brokers)]
Url = Annotated[str, AfterValidator(check_url)]
SparkAddress = Annotated[str, AfterValidator(check_spark_address)]
SparkVersion = Annotated[str, AfterValidator(check_version)]
LakeAddress = Annotated[str, AfterValidator(check_lake_address)]
