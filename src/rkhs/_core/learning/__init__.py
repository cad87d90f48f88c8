"""Hyperparameters and uncertainty for squared losses: evidence, leave-one-out, tuning, and the posterior."""
