"""How the documentation is built; `make docs` runs it."""

import sys
from pathlib import Path

from replica import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "replica"
author = copyright = "The replica developers"
release = version = __version__

# The last two stand beside this file.
extensions = ["myst_parser", "sphinx.ext.autodoc", "formulas", "generated"]
myst_enable_extensions = ["dollarmath"]
default_role = "code"

html_theme = "furo"
html_title = "replica"
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_math_renderer = "drawn"
html_show_sphinx = html_copy_source = False
toc_object_entries_show_parents = "hide"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
