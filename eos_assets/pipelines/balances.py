"""Account balances: each transaction of `transactions` gives the new balance of its account in `balances`."""

import json
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from eos_assets.declare.fold_by_key import Row, fold_by_key
from eos_assets.declare.options import Unique
from eos_assets.declare.stateful import stateful
from eos_assets.declare.topic import Topic
from eos_assets.pipelines.balance_check import BALANCES_ARE_SUMS

CURRENCIES = ("CHF", "EUR", "GBP", "USD")
#: No account may fall below this.
LOWEST_BALANCE = Decimal("-1000.00")


@stateful(
    source=Topic("transactions", partitions=3),
    sink=Topic("balances", partitions=3),
    state="balance decimal(38,2), currency string",
    unique=Unique("nullif(get_json_object(cast(value as string), '$.transaction_id'), '')", within=100_000),
    checks=(BALANCES_ARE_SUMS,),
)
def balances(records: DataFrame, state: DataFrame) -> tuple[DataFrame, DataFrame]:
    """A transaction that breaks a rule becomes a dead letter and changes no balance; a repeated one is skipped."""
    # In brackets: a value with more than one object, or with anything behind it, is no transaction then.
    in_brackets = f.concat(f.lit("["), f.col("value").cast("string"), f.lit("]"))
    read = records.withColumn("t", f.try_parse_json(in_brackets))
    alone = f.try_variant_get("t", "$[1]", "variant").isNull()
    names = ("transaction_id", "account", "currency")
    transaction_id, account, currency = (f.try_variant_get("t", f"$[0].{name}", "string") for name in names)
    # Text, or a number that was not written with an exponent: those go through no floating point.
    kind, text = (f.schema_of_variant(amount_as("variant")), amount_as("string"))
    exact = (kind != "DOUBLE") & text.rlike(r"^-?[0-9]{1,15}(\.[0-9]{1,2})?\z")
    amount = f.when(exact, text).try_cast("decimal(38,2)")
    named = alone & (f.length(transaction_id) > 0) & (f.length(account) > 0)
    wrong = (
        f.when(~f.coalesce(named, f.lit(False)), "no transaction with id and account")
        .when(account != f.col("key").cast("string"), "the key is not the account")
        .when(amount.isNull(), "the amount is no decimal number with at most two places")
        .when(~f.coalesce(currency.isin(*CURRENCIES), f.lit(False)), "the currency is not known")
    )
    fields = (transaction_id, account, currency)
    transactions = read.select(
        "key",
        "origin",
        *(field.alias(name) for field, name in zip(fields, names, strict=True)),
        amount.alias("amount"),
        wrong.alias("wrong"),
    )
    return fold_by_key(transactions, state, book, output="value string, error string")


def amount_as(kind: str) -> Column:
    return f.try_variant_get("t", "$[0].amount", kind)


def book(account: Row | None, transaction: Row) -> tuple[Row, Row | None]:
    """One transaction on its account, which is kept in the currency of its first one."""
    if transaction["wrong"]:
        return {"error": transaction["wrong"]}, account
    if account and account["currency"] != transaction["currency"]:
        return {"error": f"the account is kept in {account['currency']}"}, account
    balance = (account["balance"] if account else Decimal("0.00")) + transaction["amount"]
    if balance < LOWEST_BALANCE and transaction["amount"] < 0:
        return {"error": f"the balance would be {balance}, and {LOWEST_BALANCE} is the lowest allowed"}, account
    told = {name: transaction[name] for name in ("account", "transaction_id", "currency")}
    value = json.dumps({**told, "balance": str(balance)}, ensure_ascii=False)
    return {"value": value}, {"balance": balance, "currency": transaction["currency"]}
