"""A problem in the span of p functions, from the sums of its terms."""
