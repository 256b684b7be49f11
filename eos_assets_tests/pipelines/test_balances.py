"""Balances are right to the cent for each account, whatever fails on the way."""

import json
from decimal import Decimal
from pathlib import Path

import dagster as dg
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from eos_assets.declare.pipeline import Pipeline
from eos_assets.declare.topic import Topic
from eos_assets.orchestration.checks import AUDIT_CHECK, INVARIANTS
from eos_assets.pipelines.balances import balances, book
from eos_assets_tests.orchestration.platform import Platform, evaluations
from eos_assets_tests.pipelines.bank import Bank, own_balances, random_transactions
from eos_assets_tests.run.lab import MakeLab
from eos_assets_tests.state.folds import folded


@pytest.fixture
def bank(make_lab: MakeLab) -> Bank:
    return Bank(make_lab(pipeline=own_balances()))


def test_an_invalid_transaction_is_a_dead_letter_and_leaves_the_balance(bank: Bank) -> None:
    good = [bank.transaction("a", "0.10"), bank.transaction("a", "0.20"), bank.transaction("a", "-0.30")]
    bank.send([*good, bank.transaction("a", "-1000.01"), bank.transaction("a", "99999999999999.99")])
    repeated = Producer(bank.lab.connection.config(partitioner="murmur2_random"))
    invalid = {
        "not a decimal number": bank.transaction("a", "1e3"),
        "at most two places": bank.transaction("a", "0.001"),
        "with at most two": bank.transaction("a", "1.00\n"),
        "the amount is not": {"transaction_id": "none", "account": "a", "currency": "EUR"},
        "not known": bank.transaction("a", "1.00", currency="XXX"),
        "kept in EUR": bank.transaction("a", "1.00", currency="USD"),
        "not the account": bank.transaction("b", "1.00"),
        "not a transaction": {},
        "not a transaction with": bank.transaction("a", "1.00", transaction_id=""),
    }
    malformed = {
        "decimal number": '{"transaction_id": "o1", "account": "a", "currency": "EUR", "amount": 1e1}',
        "transaction with id": '{"transaction_id": "o2", "account": "a", "currency": "EUR", "amount": "1.00"} {}',
        "id and account": '{"transaction_id": "o3", "account": "a", "amount": "1.00", "amount": "9.00"}',
    }
    for one in (*map(json.dumps, invalid.values()), *malformed.values(), json.dumps(good[1])):
        repeated.produce(bank.lab.source, one, b"a")
    repeated.flush()
    bank.rejected += [str(one.get("transaction_id")) for one in invalid.values()]
    assert bank.lab.run().complete
    assert bank.balances["a"] == Decimal("99999999999999.99")
    names = bank.lab.pipeline.names()
    reasons = str([message.headers() for message in bank.lab.read(names.dead_letters)])
    for reason in (*invalid, *malformed, "the lowest allowed"):
        assert reason in reasons
    written = [json.loads(message.value() or b"")["balance"] for message in bank.lab.read()]
    assert written == ["0.10", "0.30", "0.00", "99999999999999.99"], (
        "exact, and the repeated transaction is not booked again"
    )
    assert len(bank.lab.read(names.dead_letters)) == len(invalid) + len(malformed) + 1
    exact = '{"transaction_id": "n", "account": "b", "currency": "EUR", "amount": 12345678.90}'
    repeated.produce(bank.lab.source, exact, b"b")
    repeated.flush()
    assert bank.lab.run().complete
    assert "12345678.90" in [json.loads(message.value() or b"")["balance"] for message in bank.lab.read()]
    assert bank.lab.broken() == set(), "a JSON number is exact, too"


def test_the_check_finds_a_balance_that_is_not_the_sum(bank: Bank) -> None:
    """A function that drops a cent is consistent with itself: only this check finds it."""
    wrong = bank.lab.with_(fold=book_less)
    bank.send([bank.transaction("a", "1.00"), bank.transaction("a", "2.00"), bank.transaction("b", "3.00")])
    assert wrong.run().complete
    assert wrong.broken() == {"balances_are_sums"}
    finding = wrong.verify()["balances_are_sums"]
    assert finding.examples == ("account=a, booked_to=a, offset=1, balance=2.99, sum=3.00",)


def test_the_check_finds_a_booking_to_another_account(make_lab: MakeLab) -> None:
    bank = Bank(make_lab(pipeline=own_balances(1, fold=book_to_account_a)))
    bank.send([bank.transaction("a", "1.00"), bank.transaction("bob", "2.00")])
    assert bank.lab.run().complete
    finding = bank.lab.verify()["balances_are_sums"]
    assert finding.examples == ("account=bob, booked_to=a, offset=1, balance=3.00, sum=2.00",)


def book_to_account_a(records, state):  # type: ignore[no-untyped-def]
    """Book everything to account a, with a consistent output."""
    from pyspark.sql import functions as f

    text = f.regexp_replace(f.col("value").cast("string"), '"account": "[^"]*"', '"account": "a"')
    assert balances.fold is not None
    return balances.fold(records.withColumn("key", f.lit("a").cast("binary")).withColumn("value", text), state)


def book_less(records, state):  # type: ignore[no-untyped-def]
    from eos_assets.pipelines import balances as module

    def book_one_cent_less(account, transaction):  # type: ignore[no-untyped-def]
        less = transaction["amount"] - Decimal("0.01") if account else transaction["amount"]
        return book(account, {**transaction, "amount": less})

    before = module.book
    module.book = book_one_cent_less
    try:
        assert balances.fold is not None
        return balances.fold(records, state)
    finally:
        module.book = before


def test_dagster_shows_the_state_as_an_asset_and_the_check_of_balances(bank: Bank, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        platform = Platform(bank.lab, instance, str(tmp_path))
        bank.send(random_transactions(bank, 40, 1))
        result = platform.materialize()
        assert result.success
        checks = evaluations(result)
        checks |= evaluations(platform.update_tables())
        assert set(checks) == {*INVARIANTS, AUDIT_CHECK, "state_recomputes", "balances_are_sums"}
        assert all(evaluation.passed for evaluation in checks.values())
        (event,) = [
            e
            for e in result.get_asset_materialization_events()
            if e.asset_key == dg.AssetKey([platform.pipeline.name, "state"])
        ]
        assert event.materialization.metadata["dagster/row_count"].value == len(bank.balances) + 40
    bank.assert_booked()


AMOUNTS = st.integers(-60_000, 60_000).map(lambda cents: f"{cents / 100:.2f}")
TRANSACTIONS = st.lists(st.tuples(st.sampled_from("ab"), AMOUNTS, st.integers(1, 30)), min_size=4, max_size=30)


@settings(max_examples=3, database=None)
@given(drawn=TRANSACTIONS, cuts=st.lists(st.integers(1, 30), min_size=1, max_size=2))
def test_balances_do_not_depend_on_where_the_transactions_are_cut(
    spark: SparkSession, drawn: list[tuple[str, str, int]], cuts: list[int]
) -> None:
    pipeline: Pipeline = own_balances(source=Topic("unused", 1))
    records = [
        (account, json.dumps({"transaction_id": str(n), "account": account, "amount": amount, "currency": "EUR"}))
        for account, amount, n in drawn
    ]
    whole = folded(pipeline, spark, records, [])
    assert folded(pipeline, spark, records, [cut for cut in cuts if cut < len(records)]) == whole
