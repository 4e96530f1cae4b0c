"""How the documentation is built; `make docs` runs it."""

import sys
from pathlib import Path

from replica import __version__

# The extensions of this site stand beside this file.
sys.path.insert(0, str(Path(__file__).parent))

project = "replica"
author = copyright = "The replica developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click", "mathml", "gallery"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["images"]

html_theme = "furo"
html_title = "replica"
html_static_path = ["_static"]
html_css_files = ["math.css"]
html_math_renderer = "mathml"
html_show_sphinx = html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
napoleon_google_docstring = False
nitpicky = False
