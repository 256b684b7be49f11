"""Plans as Spark tells them."""

from eos_assets.exactly_once.narrow import nodes_above_source


def test_the_nodes_above_the_source_are_read_from_the_plan() -> None:
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
"""
    path = ["AdaptiveSparkPlan", "Project", "BroadcastHashJoin", "Project", "Scan KafkaRelation"]
    assert nodes_above_source(explained, "x") == [path]
    assert nodes_above_source(explained, "y") == []


def test_a_scan_of_another_topic_is_not_the_source() -> None:
    explained = "== Physical Plan ==\nProject (2)\n+- Scan KafkaRelation(strategy=Assign[x-1-0, x-1-1], start=1) (1)\n"
    assert nodes_above_source(explained, "x") == []
    assert nodes_above_source(explained, "x-1") == [["Project", "Scan KafkaRelation"]]
