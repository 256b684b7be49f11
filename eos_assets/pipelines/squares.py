"""The experiment: the integers of `datasource`, squared, in `datasink`."""

from eos_assets.kafka.topics import Topic

DATASOURCE = Topic("datasource", partitions=3)
DATASINK = Topic("datasink", partitions=3)

TOPICS = (DATASOURCE, DATASINK)
