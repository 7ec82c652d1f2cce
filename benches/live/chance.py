"""Test whether counts with and without a gateway differ by more than chance: Fisher's exact test, with Python's
standard library."""
import math


def chance_of_more(count, total, count_without, total_without):
    """Returns the probability that of `count + count_without` events at least `count` fall on the first of two groups,
    if they are equally likely in both: the upper tail of the hypergeometric distribution (Fisher's exact test,
    one-sided). 1 without events; small if the first group has more than its share.

    Fisher's own example, three cups of four recognised correctly and one wrongly: 17 of 70 ways.

    >>> round(70 * chance_of_more(3, 4, 1, 4), 9)
    17.0
    >>> chance_of_more(0, 1000, 4, 1000)
    1.0

    One event is equally likely in either group; seven in one of two equal groups have 1 in 2^7, if they are few
    compared to the group.

    >>> round(chance_of_more(1, 1000, 0, 1000), 9)
    0.5
    >>> round(128 * chance_of_more(7, 1_000_000, 0, 1_000_000), 3)
    1.0

    A share of 8.3 % is within chance of 7.7 % for these totals; twice the share is not.

    >>> chance_of_more(825, 10_000, 306, 4000) > 0.1
    True
    >>> chance_of_more(1650, 10_000, 306, 4000) < 1e-30
    True
    """
    if not (0 <= count <= total and 0 <= count_without <= total_without):
        raise ValueError(f"{count} of {total} and {count_without} of {total_without}: a count lies between 0 and its total")
    events, everybody = count + count_without, total + total_without
    if count == 0:
        return 1.0
    ways = log_ways(everybody, events)
    terms = (log_ways(total, here) + log_ways(total_without, events - here) - ways for here in range(count, min(events, total) + 1) if events - here <= total_without)
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def log_ways(many, few):
    """Returns the logarithm of the number of ways to choose `few` of `many`."""
    return math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)
