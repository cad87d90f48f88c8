"""What an extension imports: base classes, and the parts with which the library's own applications are written.

The pages under "Extend" of the documentation list the names and have examples; `rkhs.testing` has the checks.  The stub
`extend.pyi` says where each name is defined.
"""

from rkhs import _facade

__all__, __getattr__, __dir__ = _facade(globals())
