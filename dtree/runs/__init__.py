"""Fitted models on disk, a file a kind; `saving` has `dtree.save` and `dtree.open`."""
