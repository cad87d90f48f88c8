"""What squared losses say about settings and errors: evidence, leaving out, tuning, the posterior."""
