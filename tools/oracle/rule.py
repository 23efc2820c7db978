"""The allowed distance of Viaduct from the reference: the rule of `oracle scale` and `oracle smollm2`, in terms of PyTorch's own
distance."""

import math

# Recipes: overrides, the run of PyTorch that it is compared with, the allowed multiple of PyTorch's distance.
RECIPES = {
    "FP32": (("mixed_precision=fp32",), "fp32", 2.0),
    "BF16, FP32 residuals": (("mixed_precision=bf16_mixed", "model.fp32_residual_connection=true"), "autocast", 1.3),
    "BF16": (("mixed_precision=bf16_mixed",), "bf16", 1.0),
}
ENOUGH = 2e-6  # a distance that is always allowed in FP32


def is_gradient(name):
    return name.startswith("grad.")


def worst_and_median(by_name):
    """(largest, median, name of the largest) distance of the gradients in errors()."""
    ordered = sorted((math.inf if math.isnan(error) else error, name) for name, error in by_name.items() if is_gradient(name))
    middle = len(ordered) // 2
    median = ordered[middle][0] if len(ordered) % 2 else (ordered[middle - 1][0] + ordered[middle][0]) / 2
    return ordered[-1][0], median, ordered[-1][1].removeprefix("grad.")


def typical(by_name):
    """Root mean square of the gradients' distances."""
    squares = [error * error for name, error in by_name.items() if is_gradient(name)]
    return math.sqrt(sum(squares) / len(squares))


def judge(recipe, own, theirs):
    """Problems; `own` and `theirs` are errors() of Viaduct and PyTorch. In FP32 the worst gradient counts. In 16 bits which gradient is
    worst, and by how much, is chance (fusions on or off move that of SmolLM2 by half): the root mean square of all does."""
    limit = RECIPES[recipe][2]
    if worst_and_median(theirs)[0] >= 1:  # PyTorch has no correct digit: which of two such errors is larger is chance
        limit = max(limit, 1.3)
    enough = ENOUGH if recipe == "FP32" else 0.0
    if recipe != "FP32":
        pairs = [("gradients", typical(own), typical(theirs))]
    else:
        pairs = [("gradients", worst_and_median(own)[0], worst_and_median(theirs)[0])]
        pairs += [(name, own[name], theirs[name]) for name in ("logits", "loss")]
    return [f"{name} {mine:.1e} against {other:.1e}" for name, mine, other in pairs if not mine <= max(limit * other, enough)]
