"""Reads the physical plan that Spark explains: the operators between the source topic and the result."""

import contextlib
import io
import itertools
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCAN = "Scan KafkaRelation"
#: Standard output belongs to the whole process: two runs at once must not read each other's plans.
EXPLAINING = threading.Lock()
OPERATOR = re.compile(r"^([\s:]*(?:[+:]- )?)(?:\* )?(Scan \w+|\w+).*?(?:\((\d+)\))?$")
REUSED = re.compile(r"^ \[Reuses operator id: (\d+)\]")
SUBQUERIES = "\n===== Subqueries =====\n"


@dataclass(frozen=True)
class Operator:
    """One operator of a plan, with its number and Spark's description of it."""

    name: str
    id: str = ""
    details: str = ""


@dataclass(frozen=True)
class SourcePlan:
    """The operators between the result and the source topic."""

    #: For each scan of the topic, the operators from the root of the plan down to it.
    paths: list[list[Operator]]
    #: Whether Spark knows that the result has no rows.
    empty: bool = False
    #: Whether a subquery in an expression reads the topic too.
    in_subquery: bool = False

    @property
    def operators(self) -> list[Operator]:
        return list({operator.id: operator for path in self.paths for operator in path}.values())

    def meeting_points(self) -> set[str]:
        """The numbers of the operators where two scans of the topic meet."""
        points = set()
        for one, other in itertools.combinations(self.paths, 2):
            common = [a.id for a, b in zip(one, other, strict=False) if a.id == b.id]
            points |= set(common[-1:])
        return points


def explain(df: "DataFrame") -> str:
    """The explain text: the one view of a physical plan that classic and Connect sessions share."""
    text = io.StringIO()
    with EXPLAINING, contextlib.redirect_stdout(text):
        df.explain(mode="formatted")
    return text.getvalue()


def source_plan(text: str, source: str) -> SourcePlan:
    """Parse an explain text. The tree of operators ends at the first empty line. After it each operator is described,
    with texts of the user that may look like anything, so that part is only searched for operators of the tree."""
    main, _, subqueries = text.partition(SUBQUERIES)
    tree, _, rest = main.strip().partition("\n\n")
    of_source = re.compile(rf"strategy=Assign\[{re.escape(source)}-\d+[,\]]")  # how `read_ranges` reads it
    paths: list[list[Operator]] = []
    stack: list[tuple[int, Operator]] = []
    scans: list[Operator] = []
    for line in tree.splitlines():
        match = OPERATOR.match(line.rstrip())
        if match is None:
            continue
        indent, name, number = match.groups()
        while stack and stack[-1][0] >= len(indent):
            stack.pop()
        operator = Operator(name, number or "", details(rest, number, name))
        stack.append((len(indent), operator))
        scans += [operator] * ("Scan" in name)
        reused = REUSED.match(operator.details)
        known = {one.id for path in paths for one in path}
        if (name == SCAN and of_source.search(line)) or (reused and reused.group(1) in known):
            paths.append([one for _, one in stack])
    empty = bool(scans) and all("\nArguments: <empty>" in scan.details for scan in scans)
    return SourcePlan(paths, empty, in_subquery=bool(of_source.search(subqueries)))


def details(rest: str, number: str | None, name: str) -> str:
    """The text after `(number) name`, up to the next empty line."""
    _, heading, following = f"\n{rest}".partition(f"\n({number}) {name}")
    return following.partition("\n\n")[0] if heading else ""
