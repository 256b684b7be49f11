"""The back-off of the sensors: delays that double, a limit, and a cursor that survives an update of the code."""

from eos_assets.orchestration.sensors.backoff import FIRST_DELAY_SECONDS, MAX_REQUESTS, Cursor, Requests


def test_the_delay_doubles_with_each_request_until_the_last_one() -> None:
    requests, now, delays = Requests(position=7), 100.0, []
    while requests.due(now):
        requests = requests.next(now)
        delays.append(requests.delay(now))
        assert not requests.exhausted(now), "the last request has its time, too"
        now += delays[-1]
    assert delays == [FIRST_DELAY_SECONDS * 2**count for count in range(MAX_REQUESTS)]
    assert requests.exhausted(now)


def test_requests_start_again_once_the_position_has_advanced() -> None:
    cursor = Cursor({"0": Requests(7, MAX_REQUESTS, 100.0)})
    assert cursor.requests_at("0", 7).count == MAX_REQUESTS
    assert cursor.requests_at("0", 8) == Requests(8)
    assert cursor.requests_at("1", 7) == Requests(7)


def test_a_cursor_of_an_earlier_version_is_read() -> None:
    """Dagster stores the cursors, so their format must not change."""
    stored = '{"0": {"at": 7, "count": 2, "asked_at": 100.0}, "failed run": {"at": 9, "count": 1, "asked_at": 5.0}}'
    assert Cursor.load(stored).requests == {"0": Requests(7, 2, 100.0), "failed run": Requests(9, 1, 5.0)}
    assert Cursor.load(stored).dump() == stored
    assert Cursor.load(None).dump() == "{}"
