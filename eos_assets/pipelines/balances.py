"""Balances: each transaction of `transactions` gives the new balance of its account in `balances`."""

import json
from decimal import Decimal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

import eos_assets as eos
from eos_assets.declare.fold_by_key import Row

CURRENCIES = ("CHF", "EUR", "GBP", "USD")
#: A transaction that would leave less is rejected.
LOWEST_BALANCE = Decimal("-1000.00")


@eos.stateful(
    source="transactions",
    sink="balances",
    state="balance decimal(38,2), currency string",
    unique=eos.Unique("nullif(get_json_object(cast(value as string), '$.transaction_id'), '')", within=100_000),
)
def balances(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Book each transaction. An invalid one becomes a dead letter and leaves the balance; a repeated one is skipped."""
    return eos.fold_by_key(parse_transactions(records), state, book, output="value string, error string")


def parse_transactions(records: DataFrame) -> DataFrame:
    """Add the fields of each transaction, and the error of an invalid one."""
    # In brackets, JSON with anything after the first object parses as a longer array, or not at all.
    array = f.concat(f.lit("["), f.col("value").cast("string"), f.lit("]"))
    parsed = records.withColumn("array", f.try_parse_json(array))
    transaction_id, account, currency = field("transaction_id"), field("account"), field("currency")
    single = f.try_variant_get("array", "$[1]", "variant").isNull()
    identified = single & (f.length(transaction_id) > 0) & (f.length(account) > 0)
    amount = exact_amount()
    error = (
        f.when(~f.coalesce(identified, f.lit(False)), "not a transaction with id and account")
        .when(account != f.col("key").cast("string"), "the key is not the account")
        .when(amount.isNull(), "the amount is not a decimal number with at most two places")
        .when(~f.coalesce(currency.isin(*CURRENCIES), f.lit(False)), "the currency is not known")
    )
    return parsed.select(
        "key",
        "origin",
        transaction_id.alias("transaction_id"),
        account.alias("account"),
        currency.alias("currency"),
        amount.alias("amount"),
        error.alias("error"),
    )


def field(name: str, kind: str = "string") -> Column:
    """A field of the first object of the array."""
    return f.try_variant_get("array", f"$[0].{name}", kind)


def exact_amount() -> Column:
    """The amount from a string, or from a number without an exponent: a number with one is parsed as a double."""
    text, kind = field("amount"), f.schema_of_variant(field("amount", "variant"))
    exact = (kind != "DOUBLE") & text.rlike(r"^-?[0-9]{1,15}(\.[0-9]{1,2})?\z")
    return f.when(exact, text).try_cast("decimal(38,2)")


def book(account: Row | None, transaction: Row) -> tuple[Row, Row | None]:
    """Book one transaction to its account. The first transaction determines the currency of the account."""
    if transaction["error"]:
        return {"error": transaction["error"]}, account
    if account and account["currency"] != transaction["currency"]:
        return {"error": f"the account is kept in {account['currency']}"}, account
    balance = (account["balance"] if account else Decimal("0.00")) + transaction["amount"]
    if balance < LOWEST_BALANCE and transaction["amount"] < 0:
        return {"error": f"the balance would be {balance}, and {LOWEST_BALANCE} is the lowest allowed"}, account
    fields = {name: transaction[name] for name in ("account", "transaction_id", "currency")}
    value = json.dumps({**fields, "balance": str(balance)}, ensure_ascii=False)
    return {"value": value}, {"balance": balance, "currency": transaction["currency"]}


@balances.check
def balances_are_sums(proof: eos.Proof) -> eos.Finding:
    """Every balance is the sum of the account's accepted transactions, recomputed from the topics."""
    if not proof.complete:
        return proof.not_evaluated("retention has removed transactions")
    transaction = f.try_parse_json(f.col("source.value").cast("string"))
    output = f.col("output.value").cast("string")
    bookings = proof.deliveries().select(
        f.col("source.key").cast("string").alias("account"),
        f.col("output.key").cast("string").alias("booked_to"),
        f.col("source.offset").alias("offset"),
        f.get_json_object(output, "$.balance").try_cast("decimal(38,2)").alias("balance"),
        f.try_variant_get(transaction, "$.amount", "decimal(38,2)").alias("amount"),
        f.get_json_object(output, "$.account").alias("in_value"),
    )
    so_far = Window.partitionBy("account").orderBy("offset")
    sums = bookings.withColumn("sum", f.sum("amount").over(so_far).cast("decimal(38,2)"))
    account = f.col("account")
    same_account = account.eqNullSafe(f.col("booked_to")) & account.eqNullSafe(f.col("in_value"))
    correct = same_account & f.col("amount").isNotNull() & f.col("balance").eqNullSafe(f.col("sum"))
    wrong = sums.where(~correct).orderBy("account", "offset").drop("amount", "in_value")
    return proof.finding(
        wrong,
        holds="every balance is the sum of the account's transactions",
        broken="balances are not the sum of the account's transactions",
    )
