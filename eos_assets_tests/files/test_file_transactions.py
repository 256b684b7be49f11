"""The pipeline on the real broker: every file is delivered as a whole, or not at all and with a reason."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eos_assets.declare.options import Batching
from eos_assets.errors import EosError
from eos_assets.experiment.faults import Faults
from eos_assets.files.announce import announce, announcement
from eos_assets.files.formats import FORMATS
from eos_assets.files.generate import Transaction, make_transactions, write_file
from eos_assets.kafka.connection import Connection
from eos_assets.orchestration.pipeline_definitions import pipeline_definitions
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.resources.spark import SparkResource
from eos_assets.pipelines import file_check
from eos_assets.pipelines.file_check import check_files
from eos_assets.pipelines.file_transactions import file_transactions
from eos_assets_tests.cli.command import eos
from eos_assets_tests.files.web_server import WebServer, endless, redirect
from eos_assets_tests.plugin import MakeTopic
from eos_assets_tests.run.lab import Lab, MakeLab

HEADER = b"transaction_id,account,amount,currency,booked_at,text\n"
MakeFiles = Callable[..., Lab]


@pytest.fixture
def files(make_lab: MakeLab, tmp_path: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch) -> MakeFiles:
    """The pipeline on topics of its own, with access to one folder and one server."""
    (tmp_path / "in").mkdir()
    monkeypatch.setenv("EOS_FILES_ROOT", str(tmp_path / "in"))
    monkeypatch.setenv("EOS_FILES_HOSTS", web.host)
    monkeypatch.setenv("EOS_FILES_MAX_BYTES", "20000000")

    def make(**declared: Any) -> Lab:
        about = {"deterministic": False, "batching": Batching(records=file_transactions.batching.records)}
        return make_lab(file_transactions.transform, checks=file_transactions.checks, **{**about, **declared})

    return make


def delivered(lab: Lab) -> list[Transaction]:
    """All visible transactions, partition after partition, each under the key of its account."""
    values = []
    for message in lab.read():
        value = json.loads(message.value() or b"")
        assert (message.key() or b"").decode() == value["account"]
        values.append(value)
    return values


def dead_letters(lab: Lab) -> dict[str, str]:
    """The original value of each dead letter → its reason."""
    reasons = {}
    for message in lab.read(lab.pipeline.names().dead_letters):
        headers = dict(message.headers() or [])
        reasons[(message.value() or b"").decode()] = str(headers["eos.error"], "utf-8")  # type: ignore[arg-type]
    return reasons


def by_id(rows: list[Transaction]) -> list[Transaction]:
    return sorted(rows, key=lambda row: row["transaction_id"])


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_valid_files_are_delivered_and_invalid_or_hostile_ones_are_dead_letters(
    files: MakeFiles, tmp_path: Path, web: WebServer
) -> None:
    """F24, and everything that can be invalid in a file, next to valid files."""
    root, lab = tmp_path / "in", files()
    wanted: list[Transaction] = []
    values: list[str] = []
    digests: set[str] = set()
    for number, name in enumerate(FORMATS):
        rows = list(make_transactions(300, seed=number, accounts=20))
        data = write_file(root / f"good-{number}.{name}", rows).read_bytes()
        web.files[f"/good-{number}.{name}"] = data
        values.append(
            announcement(str(root / f"good-{number}.{name}"))[1] if number % 2 else web.url(f"/good-{number}.{name}")
        )
        wanted += rows
        digests.add(sha256(data))
    good = next(make_transactions(1))
    line = ",".join(good[name] for name in HEADER.decode().strip().split(",")).encode() + b"\n"
    (root / "row.csv").write_bytes(HEADER + line + line.replace(b"EUR", b"??") + line)
    (root / "latin.csv").write_bytes(HEADER + line + line.replace(b"T0", b"\xfc"))
    (root / "cut.csv.gz").write_bytes(gzip.compress(HEADER + line * 1000)[:-20])
    (root / "bomb.csv.gz").write_bytes(gzip.compress(HEADER + line * 250_000))
    (root / "notes.txt").write_bytes(line)
    (root / "nothing.csv").write_bytes(HEADER)
    (tmp_path / "outside.csv").write_bytes(HEADER + line)
    (root / "link.csv").symlink_to(tmp_path / "outside.csv")
    web.files["/away.csv"] = redirect("http://169.254.169.254/latest/a.csv")
    web.files["/endless.csv"] = endless(line * 1000)
    wrong = json.dumps({"url": (root / "nothing.csv").as_uri(), "checksum": sha256(b"other")})
    expected = {
        (root / "row.csv").as_uri(): "row 2 (line 3): currency '??' is not a currency code",
        (root / "latin.csv").as_uri(): "row 2 (line 3): wrong encoding",
        (root / "cut.csv.gz").as_uri(): "truncated: the gzip data",
        (root / "missing.csv").as_uri(): "not found",
        web.url("/missing.csv"): "not found (HTTP 404)",
        wrong: "wrong checksum: declared sha256:",
        (root / "notes.txt").as_uri(): "unknown format",
        web.url("/endless.csv"): "too large: more than 20000000 bytes",
        (root / "bomb.csv.gz").as_uri(): "a decompression bomb",
        f"file://{root}/../outside.csv": "outside the declared folder",
        (root / "link.csv").as_uri(): "outside the declared folder",
        web.url("/away.csv"): "host 169.254.169.254, port 80 is not declared",
        "http://127.0.0.1:1/a.csv": "port 1 is not declared",
        "http://169.254.169.254/a.csv": "not declared",
        "ftp://example.com/a.csv": "not a declared store",
        "no reference": "is not a URL",
    }
    empty = (root / "nothing.csv").as_uri()
    for partition, chosen in enumerate(([*expected, *values[::2]], values[1::2], [empty])):
        lab.produce([value.encode() for value in chosen], partition=partition)
    report = lab.run()
    assert report.complete
    rows = delivered(lab)
    assert by_id(rows) == by_id(wanted)
    for account in {row["account"] for row in wanted}:
        for seed in range(len(FORMATS)):
            mine = [row for row in rows if row["account"] == account and row["transaction_id"].startswith(f"T{seed}-")]
            assert mine == by_id(mine), "an account's transactions are in the order of their file"
    letters = dead_letters(lab)
    assert set(letters) == set(expected)
    for value, reason in expected.items():
        assert reason in letters[value], value
    assert web.sent < 60_000_000, "nothing was fetched beyond the limit"
    summary = report.summary()
    assert sum(part.skipped for part in summary) == 1, "a file without rows is skipped, and counted"
    recorded = {digest for entry in report.entries for digest in entry.files.values()}
    assert digests <= recorded
    assert sha256((root / "row.csv").read_bytes()) in recorded, "also of a file whose content is invalid"
    assert len(recorded) == len(FORMATS) + 4  # row, latin, cut, nothing; the wrong checksum is that of nothing
    assert lab.broken() == set()


def test_a_file_of_more_rows_than_a_transaction_batch_appears_at_once_after_a_crash(
    files: MakeFiles, tmp_path: Path
) -> None:
    lab = files(partitions=1)
    rows = list(make_transactions(70_000, accounts=50))
    path = write_file(tmp_path / "in" / "wide.csv.zst", rows)
    broken = write_file(tmp_path / "in" / "broken.csv", [*rows[:60_000], {**rows[0], "amount": "1/2"}])
    lab.produce([broken.as_uri().encode(), path.as_uri().encode()])
    report = lab.run(Faults(failpoint="mid_produce", action="exit"))
    assert report.complete
    assert [outcome.task_attempt for outcome in report.outcomes] == [1], "the first attempt has died"
    (wide,) = [entry for entry in report.entries if entry.records_out]
    assert wide.records_out == 70_000 > lab.pipeline.batching.records
    assert by_id(delivered(lab)) == rows
    ((_, reason),) = dead_letters(lab).items()
    assert reason.startswith("row 60001 (line "), reason
    assert lab.watcher is not None
    assert lab.broken() == set()


def test_a_file_that_changes_between_two_attempts_is_delivered_as_the_ledger_says(
    files: MakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = files(partitions=1)
    path = write_file(tmp_path / "in" / "a.csv", make_transactions(100, seed=1))
    before = sha256(path.read_bytes())
    lab.produce([path.as_uri().encode()])
    crash = Faults(failpoint="before_commit", always=True)
    assert not lab.run(crash, max_attempts=1).complete
    assert lab.read() == []
    changed = list(make_transactions(80, seed=2))
    after = sha256(write_file(path, changed).read_bytes())
    report = lab.run()
    assert report.entries[0].files == {"0": after}
    assert by_id(delivered(lab)) == changed
    noticed = check_files(lab.pipeline, lab.spark, lab.connection)
    place = f"{path.as_uri()}, offset 0 of partition 0"
    assert (noticed.holds, noticed.detail) == (True, "1 files as delivered, 1 changed between two attempts")
    assert noticed.examples == (f"{place}: an aborted attempt found {before}, delivered {after}",)
    write_file(path, make_transactions(100, seed=1))
    finding = check_files(lab.pipeline, lab.spark, lab.connection)
    assert (finding.holds, finding.severity) == (False, "warning")
    assert finding.examples[0] == f"{place}: delivered {after}, today {before}"
    (evaluation,) = asset_checks(lab, "files_match_ledger")
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    with monkeypatch.context() as hurried:
        hurried.setattr(file_check, "TIME_LIMIT_SECONDS", 0.0)
        unseen = check_files(lab.pipeline, lab.spark, lab.connection)
        assert not unseen.evaluated
        assert unseen.detail.startswith("not evaluated: 1 not fetched for lack of time")
    path.unlink()
    gone = check_files(lab.pipeline, lab.spark, lab.connection)
    assert not gone.evaluated
    assert gone.detail.startswith("not evaluated: 1 can no longer be fetched")


def asset_checks(lab: Lab, name: str) -> list[dg.AssetCheckEvaluation]:
    """A run of one check of the sink alone, through Dagster."""
    resources = {
        "kafka": KafkaResource(bootstrap_servers=lab.connection.bootstrap_servers),
        "spark": SparkResource(address="in-process"),
        "lake": None,
    }
    defs = dg.Definitions.merge(pipeline_definitions([lab.pipeline]), dg.Definitions(resources=resources))
    chosen = dg.AssetCheckKey(dg.AssetKey(lab.sink), name)
    job = defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        subset = job.get_subset(asset_selection=set(), asset_check_selection={chosen})
        return list(subset.execute_in_process(instance=instance).get_asset_check_evaluations())


def test_where_nothing_is_declared_nothing_becomes_a_dead_letter(
    files: MakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EOS_FILES_ROOT")
    monkeypatch.delenv("EOS_FILES_HOSTS")
    lab = files(partitions=1)
    lab.produce([b"file:///in/a.csv"])
    with pytest.raises(EosError, match="set EOS_FILES_ROOT or EOS_FILES_HOSTS"):
        lab.run()
    assert lab.read(lab.pipeline.names().dead_letters) == []


def test_files_are_generated_and_announced_by_command(
    connection: Connection, make_topic: MakeTopic, files: MakeFiles, tmp_path: Path
) -> None:
    lab = files()
    servers, root = connection.bootstrap_servers, tmp_path / "in"
    output = eos("files", "generate", "--count", "40", "--format", "csv.gz", "--format", "json", "--seed", "5").stdout
    names = [str(root / "transactions-5.csv.gz"), str(root / "transactions-6.json")]
    assert all(f"{name}  40 transactions" in output for name in names)
    run = eos("files", "announce", *names, "--topic", lab.source, EOS_BOOTSTRAP_SERVERS=servers)
    assert f"Announced 2 file(s) on {lab.source}." in run.stdout
    assert run.stderr == ""
    eos("files", "announce", names[0], "--plain", "--topic", lab.source, EOS_BOOTSTRAP_SERVERS=servers)
    assert announce(connection, lab.source, [announcement("https://example.com/a.csv")]) == 1
    assert sorted(message.value() or b"" for message in lab.read(lab.source))[0] == Path(names[0]).as_uri().encode()
    assert lab.run().complete
    assert len(delivered(lab)) == 120
    assert list(dead_letters(lab)) == ["https://example.com/a.csv"]
    missing = eos("files", "announce", str(root / "none.csv"), status=1)
    assert "There is no file" in missing.stderr
