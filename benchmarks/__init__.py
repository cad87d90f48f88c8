"""Speed beside peers and beside bare matrix products, each comparison within one run."""
