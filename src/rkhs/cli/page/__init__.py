"""The report of `rkhs fit`: one HTML file with its pictures in it, which fetches nothing."""

from rkhs.cli.page.document import Findings, write_page

__all__ = ["Findings", "write_page"]
