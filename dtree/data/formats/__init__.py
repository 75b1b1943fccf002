"""The formats that rows come in, one file each; a new one is a file here and its name below.

Every format offers

    opened(path, choice) -> Source          the header is read and checked, the rows are not
    column(source, place) -> (n,)           the column of labels, which is not a feature
    row_names(source) -> names (n,) or None
    n_stored(source)                        the number of values of sparse rows, if it can hold such
    BY_RANGES                               whether rows can be read by ranges: then
    read(source, start, stop)                 gives rows with every column of the array (of a table: the features),
    absent(source, start, stop)               optional: names of chunks that are not there and read as fill,
    RECORDED_KINDS                            is what `Source.kind` may say in the header of a run; else
    load(source)                              gives all rows, and
    stage(source, folder) -> Source           writes them once to where they can be read by ranges
"""

from importlib import import_module

KINDS = ("npy", "npz", "csv", "parquet", "zarr", "memory")  # each a module here
FORMATS = {kind: import_module(f"dtree.data.formats.{kind}") for kind in KINDS}
