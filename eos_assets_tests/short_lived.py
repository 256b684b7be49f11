"""The environment of servers that live for a few tests."""

#: In its first minutes a JVM spends half of its processor time on optimizing code that then hardly runs: the quick
#: compiler alone is enough here. Without the second option it has a fifth of the room for code, and compiles it again
#: and again.
QUICKLY_COMPILED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
