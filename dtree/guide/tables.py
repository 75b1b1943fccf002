"""What becomes of the columns of a table.

`.csv` and `.parquet` files, folders of parquet files, and frames of pandas, Polars and Arrow are tables: every column has a kind. It is
found from the data before a fit starts, shown with its reason on the console, by `dtree info` and in the report, and kept by the run.

| the column holds | it is |
| --- | --- |
| numbers | real |
| dates (2024-05-31, or a type of dates), durations | real: days since 1970, days |
| whole numbers from 0 to at most 1,000 | count |
| 0 and 1, true and false, yes and no, y and n, t and f | binary |
| text that repeats, at most 1,000 different values; a type of categories | category |
| whole numbers that do not start at 0, each with at least as many rows, on average, as there are values; in a table with text | category: codes |
| text that differs in every row, running numbers, whole numbers that all differ under a name such as `customer_id` | left out |
| text of several words that hardly repeats, more than 1,000 different texts, one value only, no value at all | left out |

Why codes: a bell curve over few values that repeat becomes ever higher the narrower it is, so that such a column would make clusters by
itself; the probability of a code is at most 1. Grades from 1 to 5 lose their order that way; say `real` to keep it.

**A table of numbers without gaps** is what an array is: all of it is real, and nothing is left out.

**Overrule it** by name: `--column zip=category --column id=skip`, or `columns={"zip": "category", "id": "skip"}`; the words are `real`,
`count`, `binary`, `category` and `skip`.

>>> import pandas
>>> from dtree.data import open_source
>>> people = pandas.DataFrame({"age": [31, 33, None, 72, 70, 75], "city": ["Bonn", "Bonn", "Oslo", "Rome", "Rome", "Rome"]})
>>> [(column.name, column.kind, column.levels) for column in open_source(people).kinds]
[('age', 'real', ()), ('city', 'category', ('Bonn', 'Oslo', 'Rome'))]

**Missing** are gaps, and in a csv also NA, N/A, NaN, null, none and ?, in any case. A number such as -999 far from all others gets a hint,
not a change: only you know what it means.

**New rows** are read with the levels of the fit, by the names of the columns, in any order. A level that the fit never saw is a level of
its own, the same for all of them; 1, 1.0 and "1" are one level. Columns that were left out need not be there.

**Levels** are sorted, or in their own order where a pandas column declares them; they do not depend on the order of the rows, on pieces or
on workers. A folder of parquet files has one set of levels, found in one scan of its columns of text.

**What is missing, what is odd.** `dtree impute RUN DATA --out filled.csv` writes the table with its gaps filled in, every other field as it
was: the mean of a number given the rest of its row, the most probable word; `--probabilities` adds how probable it is. `dtree predict RUN
DATA --surprisal --out odd.csv` writes -log p(value | the rest of its row) for every value, and says which are the oddest. A density depends on
the unit of its column, so compare a surprisal with others of its column. In Python these are `impute` and `surprisal` of `BHC`,
`BayesKMeans`, `BayesKMeansBHC`, `IncrementalBHC`, `DPMixtureVB` and `TreeClustering`, and `dtree.column_influence(model)` says how many nats a
row each column contributes to telling the clusters apart. They know every family but the multinomial. A full Gaussian is fitted to complete
rows, but fills in and predicts any: the other values of the row tell what is missing also within a cluster.

**Numbers with gaps.** Independent columns need several components for a group of slanted shape. So `TreeClustering` (`dtree fit`) fills the
gaps of a table of numbers by draws given the rest of the row, fits full Gaussians to the completed rows, and does so a few times. It takes such
a fit where its bound on the evidence of the values that are there is higher than that of independent columns. That bound rests on one draw of
what is missing: it is an estimate, where that of independent columns (`family="mixed"`) is exact. Of more than `sample_rows` rows (5,000), and
in tables with other kinds of columns, columns are independent within a component. Where a column is on a bent scale
the middle of its distribution is filled in, since a long tail may have no mean.

>>> import dtree
>>> model = dtree.BHC(random_state=0).fit(people)
>>> model.impute(people).round().tolist()[2][0] > 30
True
"""
