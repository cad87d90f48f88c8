"""`python -m rkhs`, the same as `rkhs`."""

from rkhs.cli import main

if __name__ == "__main__":
    main()
