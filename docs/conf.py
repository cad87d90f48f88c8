"""How the documentation is built: `make docs`."""

import inspect
import re
from functools import cached_property
from importlib import import_module
from importlib.metadata import version as installed

project = "rkhs"
author = "the rkhs developers"
copyright = f"2026, {author}"
release = version = installed("rkhs")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax comes from this package and is part of the site: nothing is fetched by readers
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["generated/**/README*", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
suppress_warnings = [
    "config.cache",
    "ref.ref",  # scikit-learn's labels in docstrings that estimators inherit
]

html_theme = "furo"
html_title = "rkhs"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def properties(module, name):
    """The documented properties of a class, for its page."""
    found = inspect.getmembers_static(getattr(import_module(module), name))
    return [key for key, value in found if isinstance(value, PROPERTY) and key[0] != "_" and inspect.getdoc(value)]


PROPERTY = (property, cached_property)
autosummary_context = {"properties": properties}
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "autolink"  # `rkhs.Problem` in a docstring is a link
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page would fetch scripts from elsewhere
    "min_reported_time": 1,
}


ITEM = re.compile(r"(?P<names>[\w*][\w, *]*) : (?P<text>.*)")


def described(app, what, name, obj, options, lines):
    """Docstrings say "name : what it is"; numpydoc would take that for a type, and wants the text on its own line."""
    for k in range(len(lines) - 1, -1, -1):
        found = ITEM.fullmatch(lines[k])
        if found and heading(lines, k) in ("Parameters", "Attributes", "Returns"):
            lines[k : k + 1] = [found["names"], "    " + found["text"]]


def heading(lines, k):
    """The last line above k that is underlined."""
    return next((lines[j - 1] for j in range(k - 1, 0, -1) if re.fullmatch("-{3,}", lines[j])), "")


def plain_formulas(app, what, name, obj, options, lines):
    """Show an indented formula after the purpose as it is; elsewhere |f| is a norm, not a substitution of reST."""
    if len(lines) > 2 and not lines[1].strip() and lines[2].startswith("    "):  # purpose, blank line, formula
        lines[2:2] = [".. code-block:: text", ""]
        text = [k for k, line in enumerate(lines) if k > 3 and line.strip() and not line.startswith(" ")]
        end = text[0] if text else len(lines)
    else:
        end = 0
    for k, line in enumerate(lines[end:], end):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = line.replace("|", r"\|")


def setup(app):
    """Before numpydoc reads them."""
    app.connect("autodoc-process-docstring", plain_formulas, priority=400)
    app.connect("autodoc-process-docstring", described, priority=401)
