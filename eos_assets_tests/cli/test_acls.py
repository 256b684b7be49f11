"""`eos acls` prints the documented commands, and needs no broker."""

from pathlib import Path

from eos_assets.platform.project import project_root
from eos_assets_tests.cli.command import eos

SECURITY = project_root(Path(__file__).parent) / "docs" / "security.md"


def test_the_documented_permissions_are_those_of_the_pipeline(home: Path) -> None:
    printed = eos("acls", "squares", "--principal", "User:squares").stdout
    assert "--transactional-id eos/squares/ --resource-pattern-type prefixed" in printed
    assert printed in SECURITY.read_text()
    with_creation = eos("acls", "squares", "--principal", "User:squares", "--creation").stdout
    added = set(with_creation.splitlines()) - set(printed.splitlines())
    assert {line.split("--operation ")[1].split()[0] for line in added} == {"Create", "Alter"}


def test_the_options_of_an_administrator_are_in_every_command(home: Path) -> None:
    access = ("--bootstrap-server", "kafka:9093", "--command-config", "my admin.properties")
    printed = eos("acls", "squares", "--principal", "User:squares", *access).stdout.splitlines()
    plain = eos("acls", "squares", "--principal", "User:squares").stdout.splitlines()
    added = "kafka-acls.sh --bootstrap-server kafka:9093 --command-config 'my admin.properties' --add"
    assert printed == [line.replace("kafka-acls.sh --add", added) for line in plain]
