"""The two kinds of cases: a configuration against one rank of the same mathematics, and an interrupted run against a whole one."""

import os
import re

from configurations import STEPS, random_configuration
from sessions import difference, metrics, named_fields

TRIES = 12  # refusals of a configuration before the case is given up

# Largest relative difference of a step's loss, and of its gradient norm, by the format of products. Sums are grouped in another way on
# other ranks; scales of FP8 and FP4 follow from what a rank has.
TOLERANCES = {"fp64": (1e-9, 1e-6), "fp32": (2e-5, 5e-3), "16": (1e-2, 0.15), "8": (5e-2, 0.5), "4": (0.1, 2.0)}
# The first updates are lr · sign(gradient), of Lion all: an element near zero goes the other way where sums are grouped in another way. A factor of
# an adapter begins with zeros, so that in 16 bits it is all made of such updates. In FP64 the layouts agree to the last digits nevertheless.
OF_SIGNS = {"fp32": (2e-4, 0.1), "16": (2e-2, 0.5)}


class Finding(Exception):
    pass


class Case:
    def __init__(self, random, knobs, runner, folder, with_mpi, inputs, family=None):
        self.random, self.knobs, self.runner, self.folder = random, knobs, runner, folder
        self.names = {knob.name for knob in knobs}
        self.configuration = random_configuration(random, knobs, with_mpi, inputs, family)
        self.sessions = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, name, with_how=True, more=()):
        ranks, mpi = (self.configuration.ranks, self.configuration.mpi) if with_how else (1, False)
        session = self.runner.train([*self.configuration.overrides(with_how), *more], ranks, mpi, self.path(name))
        self.sessions.append(session)
        self.check(session)
        return session

    def check(self, session):
        """Whatever the settings, a run ends with 0, or is refused by the name of a field before it starts."""
        if session.status is None:
            raise Finding(f"a run does not end within {self.runner.seconds:.0f} s")
        if session.status == 0 or session.diverged():
            return
        if session.is_refused() and not named_fields(session.text, self.names):
            raise Finding(f"refused without the name of a field: {session.error()}")
        if session.is_refused() and ("step 1/" in session.text or re.search(r"error: rank \d+: ", session.text)):
            raise Finding(f"refused when the ranks are already running: {session.error()}")
        if not session.is_refused():
            raise Finding(f"ends with status {session.status}: {session.error()}")

    def settle(self, name):
        """Removes settings that are refused until a run ends; None if the whole configuration is refused."""
        for attempt in range(TRIES):
            session = self.train(f"{name}_{attempt}")
            if not session.is_refused():
                return session, self.path(f"{name}_{attempt}")
            if not self.configuration.remove(named_fields(session.error(), self.names)):
                if not self.configuration.remove(named_fields(session.text, self.names)):
                    return None
        return None

    def tolerance(self):
        recipe = str(self.configuration.what["mixed_precision.recipe"])
        formats = recipe + "".join(name for name, value in self.configuration.what.items()
                                   if name.startswith("mixed_precision.fp") and value not in ("null", "false"))
        for bits in ("4", "8"):
            if "fp" + bits in formats:
                return TOLERANCES[bits]
        has_lion = self.configuration.what.get("optimizer.optimizer") == "lion"
        if "16" in recipe or self.configuration.rounds:
            return (OF_SIGNS if has_lion or "peft.scheme" in self.configuration.what else TOLERANCES)["16"]
        if recipe == "fp64":
            return TOLERANCES["fp64"]
        return (OF_SIGNS if has_lion else TOLERANCES)["fp32"]

    def compare(self, what, one, other, tolerance):
        found = difference(metrics(one), metrics(other))
        for name, value, most in zip(("loss", "gradient norm"), found, tolerance):
            if not value <= most:
                raise Finding(f"{what}: the {name} differs by {value:.3g}, at most {most:.3g} is right")


def layout_case(case):
    """Any layout, the same run."""
    settled = case.settle("run")
    if settled is None:
        return "refused"
    session, folder = settled
    reference = case.train("one_rank", with_how=False)
    if reference.is_refused():
        return "no one-rank run"
    if session.diverged() or reference.diverged():
        if session.diverged() != reference.diverged() and case.tolerance()[0] < 1e-3:
            raise Finding("only one of the layouts stops with values that are not finite")
        return "diverged"
    # Reading costs as much as a run; every other case is enough of it.
    wrong = case.runner.check_saved(folder, case.random.random() < 0.5, "peft.scheme" in case.configuration.what)
    if wrong:
        raise Finding(wrong)
    case.compare("against one rank", folder, case.path("one_rank"), case.tolerance())
    return "compared"


def resume_case(case):
    """An interrupted run continues as if nothing had happened: to the last bit in its layout."""
    settled = case.settle("run")
    if settled is None:
        return "refused"
    session, folder = settled
    if session.diverged():
        return "diverged"
    stop = case.random.randint(1, STEPS - 1)
    first = case.train("halves", more=[f"train.exit_interval={stop}"])
    if first.status != 0:
        raise Finding(f"with train.exit_interval={stop}: status {first.status}: {first.error()}")
    other_layout = case.random.random() < 0.3
    second = case.train("halves", with_how=not other_layout)
    if second.is_refused() and other_layout:
        return "refused"
    if second.diverged():
        raise Finding("only the resumed run stops with values that are not finite")
    if second.status != 0:
        raise Finding(f"resumed: status {second.status}: {second.error()}")
    case.compare("resumed on one rank" if other_layout else "resumed", case.path("halves"), folder,
                 case.tolerance() if other_layout else (0.0, 0.0))
    return "compared"


KINDS = {"layouts": (layout_case, 4), "resumes": (resume_case, 1)}
