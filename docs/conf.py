"""How the site is built: `make docs`, offline, with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent / "examples"))

from api_pages import public_names  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

import npga  # noqa: E402
from npga.solver import core_status  # noqa: E402

core_status()  # built now where its sources have changed, and not in the first page of the gallery, which would say so

project = "npga"
author = "The npga developers"
copyright = author  # noqa: A001
version = release = npga.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "api_pages",
    "gallery_pages",
    "message_index",
    "page_outputs",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext", "gallery/*.ipynb", "gallery/*.py", "**sg_execution_times.rst"]
default_role = "py:obj"
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3

autodoc_typehints = "signature"  # of properties; api_pages puts those of parameters where they are described
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "FloatArray", "IntArray")}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 110
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = dict(zip(DEFAULT_LINKS, DEFAULT_LINKS, strict=True))  # the site is read offline
numpydoc_xref_aliases |= {name: f"{module}.{name}" for module, names in public_names().items() for name in names}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "ignore_pattern": r"(__init__|_helpers|power_cases)\.py$",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("npga",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
    "thumbnail_size": (400, 250),
    "plot_gallery": os.environ.get("NPGA_GALLERY", "1") == "1",
    "abort_on_example_error": True,
    "within_subsection_order": "gallery_pages.place",
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "npga"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_use_index = False  # the pages of the API are the index
html_context = {"default_mode": "auto"}  # light or dark as the reader's system says
html_sidebars = {"start": [], "choose": []}  # pages without children
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "functions": [], "suite": []},  # wide tables need the room
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
