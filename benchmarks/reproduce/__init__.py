"""The tables and figures of the five papers, done again: one file a paper, one function an experiment, one page in the
end."""
