"""`python -m rkhs`, the same as `rkhs`."""

from rkhs._command import main

if __name__ == "__main__":
    main()
