"""How much memory the machine has, and a refusal to ask for more."""

import os


def memory_bytes() -> int:
    """The memory of this machine; very much where that cannot be told."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def require_memory(size: int, what: str) -> None:
    """Refuse to load more bytes than the machine has: such a size is a mistake, damage or malice."""
    if size > memory_bytes():
        raise ValueError(f"{what} declares {size / 1e9:.0f} GB of data, more than this machine's memory")
