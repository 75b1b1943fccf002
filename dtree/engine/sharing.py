"""Estimators that hold a Dask client and can still be cloned, as grid searches and pipelines do."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import clone


class SharesClient:
    """A client is a connection, which cannot be copied: clones of an estimator share it.

    >>> from dtree import BHC
    >>> connection = object()  # stands for a distributed.Client
    >>> clone(BHC(client=connection, cut=0.9)).client is connection
    True
    """

    def __sklearn_clone__(self) -> Self:
        settings: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        client = settings.pop("client")
        copies = {name: clone(value, safe=False) for name, value in settings.items()}
        return type(self)(**copies | {"client": client})
