"""The other systems that the benchmarks compare this project with, each in a process of its own."""
