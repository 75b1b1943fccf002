"""Single-cell data: `dtree.tl` and `dtree.pl` work on an AnnData as scanpy's `sc.tl` and `sc.pl` do.

Neither anndata nor scanpy is imported here: whoever has an AnnData has imported them (`pip install 'dtree[scverse]'`).
"""
