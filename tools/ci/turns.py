"""Long suites take turns: each run has every third of their cases, from a place that moves with the commit, so that a few runs
have them all. `./viaduct.sh test` has them always."""

import re

PARTS = 3
LONG_SECONDS = 10  # of all cases of a suite; shorter ones are not worth it


def suite_of(name):
    """What a test is a case of: a GoogleTest with parameters, a suite on the emulated GPU, a program on several instruction sets, or
    one run in many orders of streams; None: of nothing."""
    if name.startswith(("isa.", "streams.", "cuda.")):
        parts = name.split(".")
        return {"isa": ".".join(parts[::2]), "streams": parts[0], "cuda": ".".join(parts[:2])}[parts[0]]
    return name.rpartition("/")[0] if re.fullmatch(r"\w+/\w+\..+/\w+", name) else None


def in_turn(names, turn):
    return [name for number, name in enumerate(names) if (number + turn) % PARTS == 0]


def come_later(names, costs, turn):
    """The tests whose turn it is not: {suite: its names}."""
    suites = {}
    for name in names:
        if suite := suite_of(name):
            suites.setdefault(suite, []).append(name)
    later = {}
    for suite, cases in suites.items():
        if len(cases) > 1 and sum(costs.get(name, 0) for name in cases) >= LONG_SECONDS:
            later[suite] = sorted(set(cases) - set(in_turn(cases, turn)))
    return later
