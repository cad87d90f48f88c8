"""The tables and figures of the papers, computed again: `python -m papers NAME`, or `rkhs reproduce NAME`."""
