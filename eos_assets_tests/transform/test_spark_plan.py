"""Plans as Spark explains them."""

from eos_assets.transform.spark_plan import SourcePlan, source_plan


def names(plan: SourcePlan) -> list[list[str]]:
    return [[operator.name for operator in path] for path in plan.paths]


def test_the_operators_above_the_source_are_read_from_the_plan() -> None:
    explained = """\
== Physical Plan ==
AdaptiveSparkPlan (9)
+- Project (8)
   +- * BroadcastHashJoin LeftOuter BuildRight (7)
      :- * Project (2)
      :  +- Scan KafkaRelation(strategy=Assign[x-0]) (1)
      +- BroadcastExchange (6)
         +- Exchange (5)
            +- LocalTableScan (4)


(2) Project
Output [1]: [concat(value#1,
+- Sample: of a letter

Exchange (3)
+- Scan KafkaRelation) AS value#2]

(7) BroadcastHashJoin
Left keys [1]: [key#1]
"""
    path = ["AdaptiveSparkPlan", "Project", "BroadcastHashJoin", "Project", "Scan KafkaRelation"]
    plan = source_plan(explained, "x")
    assert names(plan) == [path]
    assert [operator.id for operator in plan.paths[0]] == ["9", "8", "7", "2", "1"]
    assert plan.paths[0][2].details.strip() == "Left keys [1]: [key#1]"
    assert not plan.in_subquery
    assert names(source_plan(explained, "y")) == []


def test_a_scan_of_another_topic_is_not_the_source() -> None:
    explained = "== Physical Plan ==\nProject (2)\n+- Scan KafkaRelation(strategy=Assign[x-1-0, x-1-1], start=1) (1)\n"
    assert names(source_plan(explained, "x")) == []
    assert names(source_plan(explained, "x-1")) == [["Project", "Scan KafkaRelation"]]


def test_a_subquery_and_an_exchange_that_is_used_twice_read_the_source_too() -> None:
    """Without adaptive execution Spark shows the second use of an exchange by its number alone."""
    explained = """\
== Physical Plan ==
* SortMergeJoin Inner (5)
:- Exchange (2)
:  +- Scan KafkaRelation(strategy=Assign[x-0]) (1)
+- ReusedExchange (4)


(4) ReusedExchange [Reuses operator id: 2]
Output [1]: [key#1]

(5) SortMergeJoin
Left keys [1]: [key#1]

===== Subqueries =====

Subquery:1 Hosting operator id = 5
Scan KafkaRelation(strategy=Assign[y-0]) (6)
"""
    plan = source_plan(explained, "x")
    assert names(plan) == [["SortMergeJoin", "Exchange", "Scan KafkaRelation"], ["SortMergeJoin", "ReusedExchange"]]
    assert plan.meeting_points() == {"5"}
    assert not plan.in_subquery
    assert source_plan(explained, "y").in_subquery
