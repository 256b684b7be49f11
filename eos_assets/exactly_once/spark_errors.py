"""What a failed Spark job tells: what happened in it, and whether another attempt may heal it."""

import re


def brief(failure: Exception) -> str:
    """The last line of a Python error inside a Spark error, which is what happened."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    told = [line for line in lines if ": " in line and not line.startswith(("File", "at ", "org.", "JVM"))]
    return (told[-1] if told else lines[0] if lines else repr(failure))[:500]


#: What another attempt may heal: our own protocol's errors, Kafka's, and lost workers. All else is the transform's.
HEALABLE = re.compile(
    r"eos_assets\.|KafkaException|TimeoutError|org\.apache\.kafka|worker exited|crashed|Connection reset"
    r"|EOFException|ExecutorLost|Broken pipe"
)


def may_heal(failure: Exception) -> bool:
    return bool(HEALABLE.search(brief(failure)) or re.search(r"worker exited|ExecutorLost", str(failure)))
