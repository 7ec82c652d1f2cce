"""Means, ratios and their intervals, with Python's standard library."""
import math
import statistics


def t_quantile(share, freedom):
    """Returns the quantile of Student's t, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5): within 0.5 %
    from 3 degrees on."""
    z = statistics.NormalDist().inv_cdf(share)
    n = max(freedom, 1.0)
    terms = [
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    ]
    return z + sum(term / n**power for power, term in enumerate(terms, 1))


def ratio(ours, theirs, share=0.90):
    """Returns the ratio of two means, and the ends of its interval; no interval if there are too few values. Both
    arguments are values by number; those with the same number have the same errors. The difference between `ours` for
    the numbers in `theirs` and for all numbers estimates the luck in the measured mean, which regression removes (a
    control variate)."""
    one, values = statistics.fmean(ours.values()), list(theirs.values())
    if one <= 0 or statistics.fmean(values) <= 0:
        return None
    pairs = [(ours[number], value) for number, value in theirs.items() if number in ours]
    slope, left = 0.0, [value - statistics.fmean(values) for value in values]
    if len(pairs) == len(values) >= 4 and statistics.pvariance([x for x, _ in pairs]) > 0:
        # Both vary alike, so the slope is their correlation: a few pairs with an outlier would give any slope.
        slope = min(max(statistics.linear_regression(*zip(*pairs)).slope, 0.0), 1.0)
        middle = statistics.fmean(x for x, _ in pairs)
        left = [y - statistics.fmean(values) - slope * (x - middle) for x, y in pairs]
        other = statistics.fmean(values) - slope * (middle - one)
        # The slope is an estimate too, which costs a degree of freedom.
        left = [rest * math.sqrt((len(values) - 2) / (len(values) - 3)) for rest in left]
        freedom = len(values) - 2
    else:
        other, freedom = statistics.fmean(values), len(values) - 1
    if other <= 0:
        return None
    if freedom < 1 or len(ours) < 2:
        return one / other, None, None
    measured = sum(rest**2 for rest in left) / freedom / len(values)
    simulated = statistics.variance(ours.values()) / len(ours)
    spread = math.sqrt(simulated * (1 / one - slope / other) ** 2 + measured / other**2)
    width = t_quantile((1 + share) / 2, freedom) * spread
    return one / other, one / other * math.exp(-width), one / other * math.exp(width)


def welch(parts):
    """Returns the variance of a sum of independent estimates, and its degrees of freedom (Welch 1947). Each part has a
    variance, and degrees of freedom."""
    total = sum(variance for variance, _ in parts)
    return total, total**2 / sum(variance**2 / freedom for variance, freedom in parts) if total > 0 else min(freedom for _, freedom in parts)


def steadied(theirs, ours):
    """Returns the mean of `theirs`, corrected for the luck of its few numbers, with its variance and degrees of
    freedom; the last two are `None` if there are too few values. `ours` gives the expectation for these numbers and for
    many more (a control variate with slope 1, which costs no degree of freedom). If that does not reduce the variance,
    it is the plain mean. The variance is at least that of `ours`, whose rare stalls a few values do not show."""
    plain, left = list(theirs.values()), [value - ours[number] for number, value in theirs.items()]
    if len(left) < 2:
        return statistics.fmean(plain), None, None
    mean_of = lambda values: (statistics.variance(values) / len(values), len(values) - 1)
    control = welch([mean_of(left), mean_of(list(ours.values()))])
    alone = max(statistics.variance(plain), statistics.variance(ours.values())) / len(plain)
    if control[0] < alone:
        return statistics.fmean(left) + statistics.fmean(ours.values()), *control
    return statistics.fmean(plain), alone, len(plain) - 1


def over(ours, measured, share=0.90):
    """Returns the mean of `ours` relative to a result of `steadied`, with its interval; no interval if that has no
    variance."""
    one, (other, variance, freedom) = statistics.fmean(ours), measured
    if variance is None:
        return one / other, None, None
    spread, freedom = welch([(statistics.variance(ours) / len(ours) / one**2, len(ours) - 1), (variance / other**2, freedom)])
    width = t_quantile((1 + share) / 2, freedom) * math.sqrt(spread)
    return one / other, one / other * math.exp(-width), one / other * math.exp(width)


def mean_interval(values, share=0.90):
    """Returns a mean and half the width of its interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, t_quantile((1 + share) / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
