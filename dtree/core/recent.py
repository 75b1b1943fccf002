"""The last few things that a process has made, so that it need not make them again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class Recent:
    """Remembers the last `most` values by key.

    >>> recent = Recent(1)
    >>> recent.get("a", lambda: 1), recent.get("a", lambda: 2), recent.get("b", lambda: 3), recent.get("a", lambda: 4)
    (1, 1, 3, 4)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: OrderedDict[Hashable, Any] = OrderedDict()
        self.lock = threading.Lock()  # workers of a small cluster are threads of one process

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value under a key, made when it is not remembered."""
        with self.lock:
            if key in self.held:
                self.held.move_to_end(key)
                return self.held[key]
        value = make()
        with self.lock:
            self.held[key] = value
            while len(self.held) > self.most:
                self.held.popitem(last=False)
        return value

    def holds(self, key: Hashable) -> bool:
        """Whether a value is remembered."""
        with self.lock:
            return key in self.held

    def forget(self, over: Callable[[Any], bool]) -> None:
        """Let go of the values whose keys are over and done with."""
        with self.lock:
            for key in [key for key in self.held if over(key)]:
                del self.held[key]
