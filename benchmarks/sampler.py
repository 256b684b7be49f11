"""Sample the memory of Spark's Python workers from another process."""

import threading

import psutil


class Sampler:
    """The highest resident memory of any Python worker inside the `with` block."""

    def __init__(self) -> None:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "eos_assets.platform.worker_startup" in process.cmdline():
                        self.peak = max(self.peak, process.memory_info().rss)
                except psutil.Error:
                    continue
