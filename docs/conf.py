"""How the documentation is built: `make docs`."""

from importlib.metadata import version as installed

project = "rkhs"
author = "the rkhs authors"
release = version = installed("rkhs")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["generated/**/README*", "auto_examples/*.ipynb"]
myst_heading_anchors = 3
suppress_warnings = [
    "config.cache",
    "ref.ref",  # scikit-learn's labels in docstrings that estimators inherit
]

html_theme = "furo"
html_title = "rkhs"

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
}


def plain_formulas(app, what, name, obj, options, lines):
    """Our docstrings write |f| for a norm, which reStructuredText would take for a substitution."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = line.replace("|", r"\|")


def setup(app):
    """Before numpydoc reads them."""
    app.connect("autodoc-process-docstring", plain_formulas, priority=400)
