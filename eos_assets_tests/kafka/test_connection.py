"""Questions to brokers that have not settled: asked again, and not for ever."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from eos_assets.kafka.connection import SHORT_SECONDS, ask_shortly


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_a_question_gets_more_time_each_time_it_is_asked() -> None:
    limits: list[float] = []

    def question(limit: float) -> str:
        limits.append(limit)
        if len(limits) < 4:
            raise failure(KafkaError._TIMED_OUT)
        return "answer"

    assert ask_shortly(question) == "answer"
    assert limits == [SHORT_SECONDS * factor for factor in (1, 4, 16, 64)]


def test_a_lasting_error_is_the_answer_at_once_and_a_transient_one_when_the_patience_ends() -> None:
    asked: list[int] = []

    def question(_: float, code: int = KafkaError.TOPIC_AUTHORIZATION_FAILED) -> None:
        asked.append(code)
        raise failure(code)

    with pytest.raises(KafkaException):
        ask_shortly(question)
    assert len(asked) == 1
    with pytest.raises(KafkaException) as refused:
        ask_shortly(lambda limit: question(limit, KafkaError.LEADER_NOT_AVAILABLE), patience=0.2)
    assert refused.value.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE
    assert 2 < len(asked) < 10, "asked again, after a pause"
