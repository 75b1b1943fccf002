"""Bayes K-means: hard assignment by marginal likelihood, with the number of clusters inferred."""
