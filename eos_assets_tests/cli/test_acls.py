"""`eos acls`: the documented commands are those that it prints, and it needs no broker."""

from pathlib import Path

from eos_assets.settings import project_root
from eos_assets_tests.cli.command import eos

SECURITY = project_root(Path(__file__).parent) / "docs" / "security.md"


def test_the_documented_permissions_are_those_of_the_pipeline(home: Path) -> None:
    printed = eos("acls", "squares", "--principal", "User:squares").stdout
    assert "--transactional-id eos/squares/ --resource-pattern-type prefixed" in printed
    assert printed in SECURITY.read_text()
    with_creation = eos("acls", "squares", "--principal", "User:squares", "--creation").stdout
    added = set(with_creation.splitlines()) - set(printed.splitlines())
    assert {line.split("--operation ")[1].split()[0] for line in added} == {"Create", "Alter"}
