"""Measurements against peers, in one run on one machine; answers are asserted before anything is timed."""
