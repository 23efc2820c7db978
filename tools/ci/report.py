"""What a run of the checks prints at its end."""

SLOWEST = 30
GOAL_MINUTES = 45


def grown(seconds, recorded, pace, count=10):
    """Programs or tests that take much longer than recorded: [(seconds more, name)], the largest first."""
    more = [(seconds[name] - recorded[name] * pace, name) for name in seconds if name in recorded]
    return sorted((entry for entry in more if entry[0] > 1), reverse=True)[:count]


def lines(times, outcome, left_out, costs, pace, passed):
    """`times`: [(phase, seconds or a word)]; `outcome`: of all tests; `left_out`: names of phases that did not run or end."""
    result = ["== time by phase"]
    result += [f"{seconds:6.0f} s  {name}" if isinstance(seconds, float) else f"     -    {name}: {seconds}" for name, seconds in times]
    result.append(f"{passed:6.0f} s  all; this machine takes {pace:.2f} times as long as that of tools/ci/costs.json")
    whole = sum(outcome.seconds.values())
    slowest = sorted(outcome.seconds.items(), key=lambda test: -test[1])[:SLOWEST]
    if slowest:
        result.append(f"== the {len(slowest)} slowest of {len(outcome.seconds)} tests, and their share of {whole:.0f} s")
        result += [f"{seconds:7.1f} s {100 * seconds / whole:5.1f} %  {name}" for name, seconds in slowest]
    more = grown(outcome.seconds, costs["tests"], pace)
    if more:
        result.append("== slower than recorded (tools/ci/costs.json)")
        result += [f"{seconds:+7.1f} s  {name}" for seconds, name in more]
    if passed > GOAL_MINUTES * 60:
        result.append(f"== warning: {passed / 60:.0f} minutes, more than {GOAL_MINUTES}")
    if left_out or outcome.left_out:
        result.append("== left out for lack of time: " + ", ".join(left_out + shortened(outcome.left_out)))
    if outcome.failed:
        result.append("== failed: " + ", ".join(outcome.failed))
    result.append(f"{outcome.passed()} passed, {len(outcome.failed)} failed, {len(outcome.skipped)} skipped")
    return result


def shortened(names, most=20):
    return names if len(names) <= most else [*names[:most], f"and {len(names) - most} more tests"]
