"""The environment of servers that live for a few tests."""

#: In its first minutes a JVM spends half of its processor time on optimizing code that then hardly runs, so only the
#: quick compiler is used. That one has a fifth of the room for code by default, and would compile the same code again
#: and again; the second option gives it the full room.
QUICKLY_COMPILED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
