"""Chaos: random faults on random methods until the time is up; each ends in the undisturbed bits or a true sentence.

    python -m tests.chaos --minutes 30 --seed 1

An episode begins a fit, disturbs it, and looks how it ended; then what was disturbed is put right, where it can be, and
the run is carried on. Ends are counted by fault: `bits` (nothing was lost), `sentence` (refused in one sentence, and
after putting it right the same bits), `refused` (a sentence that no putting right follows), `late` (the run was over
before the fault came, which proves nothing). What is none of these makes the exit code 1: `SILENT` is a wrong answer
without a word, `CRASH` an error that is no sentence. Every episode is a line, with all that was said in it.
"""
