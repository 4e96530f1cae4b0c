"""The equations of the derivation, printed by the code between markers in its text.

    <!-- printed: PART; PATTERN; PATTERN ... -->
    <!-- end -->

holds the equations of one part of `replica equations` whose left side or origin matches a pattern, or all if
there is no pattern. As a script, this file brings the page up to date; a test fails where it is not.
"""

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from replica.theory.printing import printed

PAGE = Path(__file__).with_name("derivation.md")


def filled(text: str) -> str:
    """The text with everything between its markers printed anew."""
    return re.sub(
        r"(?<=<!-- printed: )([^\n]*?)( -->\n).*?(?=<!-- end -->)",
        lambda match: f"{match[1]}{match[2]}\n{_block(*match[1].split('; '))}\n\n",
        text,
        flags=re.DOTALL,
    )


def _block(part: str, *patterns: str) -> str:
    """The equations of a part in Markdown, below the command that prints them."""
    blocks = [f"*Printed by* `replica equations --part {part}`:"]
    said = ""
    for left, origin, body in _equations(part):
        if not patterns or any(fnmatchcase(left, pattern) for pattern in patterns):
            blocks.append(f"$$\n{body}\n$$")
        elif any(fnmatchcase(origin, pattern) for pattern in patterns):
            # Where the origin chooses, the reader needs it too.
            blocks += [f"{origin}:"] * (origin != said) + [f"$$\n{body}\n$$"]
            said = origin
    if len(blocks) == 1:
        raise ValueError(f"no equation of {part} matches {patterns}")
    return "\n\n".join(blocks)


@cache
def _equations(part: str) -> list[tuple[str, str, str]]:
    """(left side as text, origin, LaTeX) of each equation of a part."""
    texts = re.findall(r"^# (.*)\n(.*?) = ", printed("text", part), flags=re.MULTILINE)
    bodies = re.findall(
        r"\\begin\{equation\}\n(.*?)\n\\end\{equation\}", printed("latex", part), flags=re.DOTALL
    )
    return [(left, origin, _aligned(body)) for (origin, left), body in zip(texts, bodies, strict=True)]


def _aligned(body: str) -> str:
    """Rows as browsers know them; `replica equations` uses the array of plain LaTeX."""
    rows = body.replace(r"\begin{array}{l}", r"\begin{aligned}").replace(r"\end{array}", r"\end{aligned}")
    return rows.replace(r"\displaystyle ", "& ")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
