"""Jars that a test may damage."""

from eos_assets.platform.settings import Settings


def damage(settings: Settings, name: str) -> None:
    jar = settings.jars_dir / name
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.unlink()  # a hard link: the original stays whole
    jar.write_bytes(content)
