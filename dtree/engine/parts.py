"""Parts of a run that move on their own, block by block: chains, walks of a search."""

from typing import Any

from dtree.methods.contract import Job

# Besides the newest two, the state after every so many blocks stays, a minute of a chain: when a block between is found
# damaged, a part goes back to there and not to its beginning. A state takes less room than the draws of one block.
STATE_EVERY = 32


def is_over(job: Job, number: int) -> bool:
    """Whether a part has come to its end."""
    part = job.newest_part(number)
    return part is not None and job.method.part_over(job, part)


def advance_task(job: Job, number: int) -> tuple[bool, Any]:
    """The next block of a part: read where it stands, move on, commit. Returns whether it is over, and an event.

    A block's state and what it keeps are one record, so that a twin of this task on another worker cannot mix the two.
    Of most but the newest two blocks only what they keep stays.
    """
    store = job.store
    part, event = job.method.advance(job, number, job.newest_part(number))
    store.put(f"parts/{number:04d}/gen-{part.number:08d}", part)
    keeps = job.method.Kept is not type(None)
    for old in job.blocks(number, "gen")[:-2]:
        if keeps and int(old[-8:]) % STATE_EVERY == 0:
            continue
        if keeps:
            store.put(old.replace("/gen-", "/kept-"), store.get(old, job.method.Part).kept)
        store.drop(old)
    return job.method.part_over(job, part), event
