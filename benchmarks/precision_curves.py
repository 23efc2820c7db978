#!/usr/bin/python3
"""Compares the loss of the quickstart model under each precision recipe with the noise of BF16 over seeds: trains configs/quickstart.yaml with
BF16 under several seeds and with every other recipe under the first of them, prints a table for docs/low-precision.md, and draws the curves
as one SVG picture. A seed sets the initial weights and the order of the data, so a recipe and BF16 of the same seed differ by their
rounding alone, and the curves of BF16 under different seeds show the size of insignificant differences. A recipe's value is the mean over
its seeds. Runs whose metrics are complete are not repeated; --fresh repeats them. Exit status 1 if a recipe's loss is above the band."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = "bf16_mixed"
# Recipe names and their short names in the picture.
RECIPES = {"bf16_with_fp8_delayed_scaling_mixed": "FP8 delayed", "bf16_with_fp8_current_scaling_mixed": "FP8 current",
           "bf16_with_fp8_subchannel_scaling_mixed": "FP8 blockwise", "bf16_with_mxfp8_mixed": "MXFP8", "bf16_with_nvfp4_mixed": "NVFP4"}
COLORS = ("#d62728", "#ff7f0e", "#2ca02c", "#1f77b4", "#9467bd")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 56, 16, 34, 40


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"precision_curves: {' '.join(str(a) for a in arguments)} failed:\n{done.stderr[-2000:]}")


def prepare(viaduct, folder):
    """Makes the quickstart's text, tokenizer and data sets. Returns the overrides that name them."""
    lines = (ROOT / "data/tinyshakespeare.txt").read_text().splitlines(keepends=True)
    (folder / "train.txt").write_text("".join(lines[:36000]))
    (folder / "valid.txt").write_text("".join(lines[36000:]))
    if not (folder / "tokenizer").exists():
        call(viaduct, "tokenizer", "train", "--input", folder / "train.txt", "--vocab-size", 1024, "--output", folder / "tokenizer")
    for part in ("train", "valid"):
        if not (folder / f"{part}.idx").exists():
            call(viaduct, "data", "tokenize", "--input", folder / f"{part}.txt", "--tokenizer", folder / "tokenizer", "--output", folder / part)
    return [f'dataset.blend_per_split=[["{folder}/train"],["{folder}/valid"],null]', f'tokenizer.tokenizer_model="{folder}/tokenizer"']


def read_curve(file):
    """Reads the losses of the steps in order and the last validation loss from a metrics.jsonl; None if the file does not exist."""
    if not file.exists():
        return None
    losses, validation = {}, None
    for line in file.read_text().splitlines():
        row = json.loads(line)
        if row.get("loss") is not None and "step" in row:
            losses[row["step"]] = row["loss"]
        if row.get("validation_loss") is not None:
            validation = row["validation_loss"]
    return [losses[step] for step in sorted(losses)], validation


def train(options, folder, data, recipe, seed):
    place = folder / f"{recipe}_{seed}"
    file = place / "metrics.jsonl"
    curve = None if options.fresh else read_curve(file)
    if curve is None or len(curve[0]) < options.steps or curve[1] is None:
        shutil.rmtree(place, ignore_errors=True)  # otherwise an incomplete run would resume from its checkpoint
        print(f"precision_curves: {recipe}, seed {seed}", file=sys.stderr, flush=True)
        call(options.viaduct, "train", ROOT / "configs/quickstart.yaml", *data, f"mixed_precision={recipe}", f"rng.seed={seed}",
             f"train.train_iters={options.steps}", "logger.log_interval=1", f"validation.eval_interval={options.steps}",
             f"checkpoint.save_interval={options.steps}", f'checkpoint.save="{place}"', *options.overrides)
        curve = read_curve(file)
    return curve


def averaged(losses, window):
    """Running mean over the last `window` steps."""
    sums, means = 0.0, []
    for i, loss in enumerate(losses):
        sums += loss - (losses[i - window] if i >= window else 0)
        means.append(sums / min(i + 1, window))
    return means


def final_loss(curve, window):
    return sum(curve[0][-window:]) / len(curve[0][-window:])


def band_of(curves, window):
    """For the final training loss (mean of the last `window` steps) and validation loss of the runs: the mean, and half the
    width of the band, twice the deviation over seeds."""
    bands = []
    for values in ([final_loss(c, window) for c in curves], [c[1] for c in curves]):
        middle = sum(values) / len(values)
        deviation = (sum((v - middle) ** 2 for v in values) / max(1, len(values) - 1)) ** 0.5
        bands.append((middle, 2 * deviation))
    return bands


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def distance(value, of_recipe, of_base):
    """The mean over the recipe's seeds of `value`, the mean of its differences from BF16 under the same seeds, and the differences."""
    differences = [value(curve) - value(of_base[seed]) for seed, curve in of_recipe.items()]
    return mean(value(curve) for curve in of_recipe.values()), mean(differences), differences


def table(noise, recipes, window):
    """The table as Markdown, and the recipes whose validation loss is above the band. Curves are by seed, those of recipes by name and seed."""
    (train_mean, train_width), (valid_mean, valid_width) = band_of(list(noise.values()), window)
    lines = [f"| recipe | training loss, mean of the last {window} steps | from BF16 | validation loss | from BF16, mean (by seed) | in the band |",
             "|---|---|---|---|---|---|",
             f"| BF16, {len(noise)} seeds: mean ± twice the deviation | {train_mean:.3f} ± {train_width:.3f} | | {valid_mean:.3f} ± {valid_width:.3f} | | |"]
    above = []
    for name, curves in recipes.items():
        train_loss, train_distance, _ = distance(lambda curve: final_loss(curve, window), curves, noise)
        valid_loss, valid_distance, by_seed = distance(lambda curve: curve[1], curves, noise)
        inside = valid_loss <= valid_mean + valid_width
        if not inside:
            above.append(name)
        lines.append(f"| `{name}` | {train_loss:.3f} | {train_distance:+.3f} | {valid_loss:.3f} | {valid_distance:+.3f} "
                     f"({', '.join(f'{d:+.3f}' for d in by_seed)}) | {'yes' if inside else 'no, above it'} |")
    return "\n".join(lines), above


def picture(noise, recipes, window):
    """Draws running means of the training loss: the range of BF16 over its seeds, and one line a recipe, the mean over its seeds."""
    means = {seed: averaged(c[0], window) for seed, c in noise.items()}
    lines = {name: averaged([mean(at) for at in zip(*(c[0] for c in curves.values()))], window) for name, curves in recipes.items()}
    steps = len(next(iter(means.values())))
    shown = range(min(window, steps - 1), steps)
    values = [m[i] for m in [*means.values(), *lines.values()] for i in shown]
    low, high = min(values), max(values)

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, steps - 1)

    def y(loss):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / max(1e-9, high - low)

    def points(values, order):
        return " ".join(f"{x(i):.1f},{y(values[i]):.1f}" for i in order)

    upper = [max(m[i] for m in means.values()) for i in range(steps)]
    lower = [min(m[i] for m in means.values()) for i in range(steps)]
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="20">Training loss, mean of {window} steps; grey: BF16 over {len(noise)} seeds</text>']
    for k in range(6):
        loss = low + (high - low) * k / 5
        text.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/>'
                    f'<text x="{LEFT - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
        step = (steps - 1) * k // 5
        text.append(f'<text x="{x(step):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{step + 1}</text>')
    text.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">step</text>')
    text.append(f'<polygon fill="#bbb" points="{points(upper, shown)} {points(lower, reversed(shown))}"/>')
    for i, (name, values) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        text.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.3" points="{points(values, shown)}"/>')
        at = TOP + 14 + 18 * i
        text.append(f'<line x1="{WIDTH - 150}" x2="{WIDTH - 126}" y1="{at - 4}" y2="{at - 4}" stroke="{color}" stroke-width="2"/>'
                    f'<text x="{WIDTH - 120}" y="{at}">{RECIPES.get(name, name)}</text>')
    return "\n".join(text + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"), help="the program")
    parser.add_argument("--folder", default=str(Path(os.environ.get("VIADUCT_RUNS", ROOT / "runs")) / "precision"), help="folder for the runs")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1234, 1, 2, 3, 4], help="of BF16")
    parser.add_argument("--recipe-seeds", type=int, default=3, help="number of seeds for the recipes: the first ones of --seeds")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), metavar="RECIPE")
    parser.add_argument("--window", type=int, default=25, help="steps that a point of a curve averages")
    parser.add_argument("--svg", default=str(ROOT / "docs/precision_curves.svg"), help="file for the picture")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that are complete")
    parser.add_argument("overrides", nargs="*", metavar="SECTION.FIELD=VALUE", help="of all runs")
    options = parser.parse_args()
    if len(options.seeds) < 2:
        parser.error("--seeds: a band needs two seeds or more")
    if not 1 <= options.recipe_seeds <= len(options.seeds):
        parser.error(f"--recipe-seeds: {options.recipe_seeds}, expected 1 to the {len(options.seeds)} of --seeds")
    folder = Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data = prepare(options.viaduct, folder)
    noise = {seed: train(options, folder, data, BASE, seed) for seed in options.seeds}
    seeds = options.seeds[:options.recipe_seeds]
    recipes = {name: {seed: train(options, folder, data, name, seed) for seed in seeds} for name in options.recipes}
    Path(options.svg).write_text(picture(noise, recipes, options.window))
    rows, above = table(noise, recipes, options.window)
    print(f"{options.steps} steps, seeds {', '.join(map(str, options.seeds))}, of recipes {', '.join(map(str, seeds))}; {platform.machine()}, "
          f"{os.cpu_count()} cores\n\n{rows}")
    if above:
        raise SystemExit(f"precision_curves: above the band of BF16: {', '.join(above)}")


if __name__ == "__main__":
    main()
