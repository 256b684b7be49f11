"""In Dagster, each mutant (F26) fails exactly the right checks, and each of them shows a counter-example."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg
import pytest

from eos_assets.audit.tables import AuditTables
from eos_assets.declare.options import Batching, Unique
from eos_assets.log.ledger import LedgerEntry
from eos_assets.orchestration.checks import AUDIT_CHECK, INVARIANTS
from eos_assets_tests.orchestration.platform import Platform
from eos_assets_tests.run.forgery import Output, commit_group, correct_outputs, forge, open_transaction
from eos_assets_tests.run.lab import Lab, MakeLab


@pytest.fixture
def forged(make_lab: MakeLab, tmp_path: Path) -> Iterator[Platform]:
    """A platform with one source partition, because forged topics are small."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield Platform(make_lab(partitions=1, unique=Unique("key")), instance, str(tmp_path / "lake"))


@dataclass(frozen=True)
class Mutant:
    """An anomaly, the checks that must fail, and the text of a counter-example of one of them."""

    make: Callable[[Platform], None]
    red: set[str]
    example: tuple[str, str]
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR


def outputs(change: Callable[[list[Output]], list[Output]]) -> Callable[[Platform], None]:
    return lambda platform: forge(platform.lab, change(correct_outputs()))


def ledger(change: Callable[[LedgerEntry], LedgerEntry]) -> Callable[[Platform], None]:
    return lambda platform: forge(platform.lab, correct_outputs(), change)


def swapped(made: list[Output]) -> list[Output]:
    one, other = [output for output in made if output.partition == 0][:2]
    return [other if output is one else one if output is other else output for output in made]


def exchanged(made: list[Output]) -> list[Output]:
    """Two records change places, and the provenance map claims that each is in its place."""
    one, other = [output for output in made if output.partition == 0][:2]
    exchanged = {one: replace(other, claims=one.number), other: replace(one, claims=other.number)}
    return [exchanged.get(output, output) for output in made]


def changed(number: int, **what: object) -> Callable[[list[Output]], list[Output]]:
    return lambda made: [replace(o, **what) if o.number == number else o for o in made]  # type: ignore[arg-type]


def moved_group(platform: Platform) -> None:
    forge(platform.lab, correct_outputs())
    commit_group(platform.lab, 17)


def repeated_business_key(platform: Platform) -> None:
    platform.lab.produce([b"1", b"2", b"2", b"3"])
    assert platform.lab.run().complete


def audit_row_removed(platform: Platform) -> None:
    lab: Lab = platform.lab
    forge(lab, correct_outputs())
    tables = AuditTables(lab.pipeline, lab.spark, lab.connection, platform.lake)
    tables.update()
    lab.spark.sql(f"delete from delta.`{tables.path('audit_deliveries')}` where source_offset = 7")


def wrong_digest(entry: LedgerEntry) -> LedgerEntry:
    first, *others = entry.sinks
    return replace(entry, sinks=(replace(first, digest=first.digest ^ 1), *others))


OPEN_CHECK = "no_open_transactions"
MUTANTS = {
    "a duplicate": Mutant(
        outputs(lambda made: [*made, made[-1]]),
        {"no_duplicates", "ordered_within_partition", "values_recompute"},
        ("no_duplicates", "source_offset=19"),
    ),
    "a loss": Mutant(
        outputs(lambda made: [output for output in made if output.number != 7]),
        {"none_missing", "values_recompute"},
        ("none_missing", "source_offset=7"),
    ),
    "a swap": Mutant(outputs(swapped), {"ordered_within_partition"}, ("ordered_within_partition", "sink_partition=0")),
    "an invented record": Mutant(
        outputs(lambda made: [*made, replace(made[3], named=False)]),
        {"none_invented", "values_recompute"},
        ("none_invented", "sink_offset="),
    ),
    "a wrong partition": Mutant(
        outputs(lambda made: changed(7, partition=(made[7].partition + 1) % 3)(made)),
        {"routed_correctly"},
        ("routed_correctly", "sink_partition="),
    ),
    "a torn transaction": Mutant(
        outputs(changed(7, visible=False)),
        {"none_missing", "ledger_matches_sink", "values_recompute"},
        ("values_recompute", "source record 0/7"),
    ),
    "a gap in the ledger": Mutant(
        ledger(lambda entry: replace(entry, start=3)),
        {"ledger_tiles_source", "ledger_matches_sink"},
        ("ledger_tiles_source", "gap between 0 and [3, 20)"),
    ),
    "a digest that is not the sink's": Mutant(
        ledger(wrong_digest), {"ledger_matches_sink"}, ("ledger_matches_sink", "transaction [0, 20)")
    ),
    "a moved group offset": Mutant(
        moved_group, {"offsets_match_ledger"}, ("offsets_match_ledger", "ledger 20, group offset 17")
    ),
    "a value that the transform does not give": Mutant(
        outputs(changed(7, wrong_value=True)), {"values_recompute"}, ("values_recompute", "source record 0/7")
    ),
    "two values exchanged under an honest-looking map": Mutant(
        outputs(exchanged), {"values_recompute"}, ("values_recompute", "lost: source record 0/")
    ),
    "a business key twice in the source": Mutant(
        repeated_business_key,
        {"source_is_unique"},
        ("source_is_unique", "business_key=2"),
        dg.AssetCheckSeverity.WARN,
    ),
    "a row missing in an audit table": Mutant(
        audit_row_removed, {AUDIT_CHECK}, (AUDIT_CHECK, "20 outputs, 19 rows in audit_deliveries")
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=[name.replace(" ", "_") for name in MUTANTS])
def test_exactly_the_right_checks_fail(forged: Platform, mutant: Mutant) -> None:
    mutant.make(forged)
    evaluated = forged.check()
    assert set(evaluated) == {*INVARIANTS, AUDIT_CHECK}, "every check was evaluated"
    assert {name for name, evaluation in evaluated.items() if not evaluation.passed} == mutant.red
    for name in mutant.red:
        assert evaluated[name].severity is mutant.severity
        assert examples(evaluated[name]), f"{name} names no counter-example"
    check, text = mutant.example
    assert any(text in example for example in examples(evaluated[check])), examples(evaluated[check])


@pytest.mark.parametrize("make_lab", ["batches"], indirect=True)
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.red <= set(INVARIANTS)])
def test_exactly_the_right_invariants_of_an_arrow_pipeline_are_violated(forged: Platform, name: str) -> None:
    MUTANTS[name].make(forged)
    findings = forged.lab.verify()
    assert {name for name, finding in findings.items() if not finding.holds} == MUTANTS[name].red
    check, text = MUTANTS[name].example
    assert any(text in example for example in findings[check].examples), findings[check].examples


def test_without_an_anomaly_all_checks_pass(forged: Platform) -> None:
    forge(forged.lab, correct_outputs())
    assert all(evaluation.passed for evaluation in forged.check().values())


def test_a_transaction_that_stays_open_fails_its_check(make_lab: MakeLab, tmp_path: Path) -> None:
    """It is open for longer than the timeout of the pipeline. Once it has ended, all checks pass."""
    lab = make_lab(partitions=1, batching=Batching(timeout_ms=1500))
    forge(lab, correct_outputs())
    held = open_transaction(lab)
    with dg.DagsterInstance.ephemeral() as instance:
        platform = Platform(lab, instance, str(tmp_path / "lake"))
        evaluated = platform.check()
        assert {name for name, evaluation in evaluated.items() if not evaluation.passed} == {OPEN_CHECK}
        example = examples(evaluated[OPEN_CHECK])[0]
        assert example.startswith(f"{lab.sink}/0: open at ")
        assert f"; {lab.sink}/0 is held back at offset " in example
        assert " by producer " in example
        held.abort_transaction(30)
        assert all(evaluation.passed for evaluation in platform.check().values())


def test_every_invariant_has_its_mutant() -> None:
    seen = {name for mutant in MUTANTS.values() for name in mutant.red}
    assert seen | {OPEN_CHECK} == {*INVARIANTS, AUDIT_CHECK}


def examples(evaluation: dg.AssetCheckEvaluation) -> list[str]:
    table = evaluation.metadata["counter_examples"]
    assert isinstance(table, dg.TableMetadataValue)
    return [str(record.data["example"]) for record in table.records]
