"""Means, ratios and their intervals, with Python's own library."""
import math
import statistics


def t_quantile(share, freedom):
    """Student's t, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5): within 0.5 % from 3 degrees on."""
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
    """The ratio of two means and its interval, by the logarithm's variance and Welch's degrees of freedom. Without an interval where one of them has a
    single value."""
    one, other = statistics.fmean(ours), statistics.fmean(theirs)
    if one <= 0 or other <= 0:
        return None
    middle = one / other
    if min(len(ours), len(theirs)) < 2:
        return middle, None, None
    parts = [(statistics.variance(values) / statistics.fmean(values) ** 2 / len(values), len(values) - 1) for values in (ours, theirs)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return middle, middle, middle
    freedom = variance**2 / sum(part**2 / count for part, count in parts)
    width = t_quantile((1 + share) / 2, freedom) * math.sqrt(variance)
    return middle, middle * math.exp(-width), middle * math.exp(width)


def mean_interval(values, share=0.90):
    """A mean and half the width of its interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, t_quantile((1 + share) / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
