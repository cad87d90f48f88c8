"""Configure Sphinx: `make docs` builds the site into build/docs."""

import inspect
import re
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version as installed

import numpydoc.docscrape_sphinx
from bs4 import BeautifulSoup
from furo.navigation import get_navigation_tree
from jinja2.sandbox import SandboxedEnvironment
from sphinx.environment.adapters.toctree import global_toctree_for_doc

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
    "sphinx-mathjax-offline",  # MathJax is part of the site, so that readers fetch nothing from elsewhere
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["generated/**/README*", "auto_examples/*.ipynb", "auto_recipes/**/*.ipynb"]
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


PROPERTY = (property, cached_property)
HIDDEN = ("__init__", "get_metadata_routing", "with_traceback", "add_note")


def class_members(module, name):
    """Return the public methods and properties of a class with the first lines of their docstrings, for its page.

    Methods that scikit-learn defines are named and not documented again.  The template makes its tables from this
    list: `autosummary` would import every object and render every docstring a second time.
    """
    found = {"methods": [], "properties": [], "inherited": []}
    for key, value in inspect.getmembers_static(getattr(import_module(module), name)):
        text = inspect.getdoc(value)
        if key.startswith("_") or key in HIDDEN or key.endswith("_request") or not text:
            continue
        summary = text.splitlines()[0].replace("|", r"\|")
        if isinstance(value, PROPERTY):
            found["properties"].append((key, summary))
        elif callable(value) or isinstance(value, classmethod | staticmethod):
            origin = getattr(value, "__module__", "") or ""
            if origin.startswith("sklearn"):
                found["inherited"].append(key)
            else:
                found["methods"].append((key, summary))
    return found


autosummary_context = {"class_members": class_members}
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "autolink"  # `rkhs.Problem` in a docstring is a link
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "../recipes"],
    "gallery_dirs": ["auto_examples", "auto_recipes"],
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its page would fetch scripts from elsewhere
    "min_reported_time": 1,
}


ENVIRONMENTS = {}


def template_environment(loader):
    """Return one Jinja environment for each kind of loader; all loaders of numpydoc read the same folder.

    numpydoc makes a new environment, and compiles its template again, for each of 4,000 docstrings.
    """
    if type(loader) not in ENVIRONMENTS:
        ENVIRONMENTS[type(loader)] = SandboxedEnvironment(loader=loader)
    return ENVIRONMENTS[type(loader)]


numpydoc.docscrape_sphinx.SandboxedEnvironment = template_environment


def class_signature(app, what, name, obj, options, signature, annotation):
    """Return the signature of the class: that of a wrapped `__init__` is (*_, **given)."""
    if what == "class" and "**given" in (signature or ""):
        parameters = inspect.signature(obj).parameters.values()
        plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
        return str(inspect.Signature(plain)), ""
    return None


def plain_formulas(app, what, name, obj, options, lines):
    """Show an indented formula after the summary literally; elsewhere escape |f|, a substitution in reST."""
    if len(lines) > 2 and not lines[1].strip() and lines[2].startswith("    "):  # summary, blank line, formula
        lines[2:2] = [".. code-block:: text", ""]
        text = [k for k, line in enumerate(lines) if k > 3 and line.strip() and not line.startswith(" ")]
        end = text[0] if text else len(lines)
    else:
        end = 0
    for k, line in enumerate(lines[end:], end):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = line.replace("|", r"\|")


# Furo resolves the whole table of contents for every page, a third of the build.  The tree is the same each time,
# except for relative addresses and the open branch: resolve it once, and change these two.


@cache
def navigation(app):
    """Return furo's navigation tree with addresses relative to the root, and its links by page."""
    options = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}
    tree = global_toctree_for_doc(app.env, app.config.root_doc, app.builder, tags=app.tags, **options)
    soup = BeautifulSoup(get_navigation_tree(app.builder.render_partial(tree)["fragment"]), "html.parser")
    return soup, {link["href"]: link for link in soup.find_all("a", class_="internal")}


def hide_toctree(app, pagename, templatename, context, doctree):
    """Keep furo from computing the tree."""
    context.pop("toctree", None)


def show_navigation(app, pagename, templatename, context, doctree):
    """Open the branch of this page and make addresses relative to it."""
    soup, links = navigation(app)
    link = links.get(app.builder.get_target_uri(pagename))
    branch = [] if link is None else link.find_parents("li")
    for depth, item in enumerate(branch):
        item["class"] += ["current"] + ["current-page"] * (depth == 0)
        for box in item.find_all("input", recursive=False):
            box["checked"] = ""
    html = re.sub(r'href="(?![#:]|\w+:)', lambda found: found[0] + "../" * pagename.count("/"), str(soup))
    for depth, item in enumerate(branch):
        del item["class"][-2 if depth == 0 else -1 :]
        for box in item.find_all("input", recursive=False):
            del box["checked"]
    context["furo_navigation_tree"] = html


def setup(app):
    """Connect what runs before numpydoc, and around furo."""
    app.connect("autodoc-process-docstring", plain_formulas, priority=400)
    app.connect("autodoc-process-signature", class_signature, priority=400)
    app.connect("html-page-context", hide_toctree, priority=400)
    app.connect("html-page-context", show_navigation, priority=600)
