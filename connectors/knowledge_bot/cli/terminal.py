"""Text that came from elsewhere, made safe to show."""

import re

# Everything that steers a terminal, but not tabs and line ends: C0, DEL, C1, and what turns the
# direction of writing around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that a service cannot move the cursor."""
    return _CONTROL.sub(
        lambda match: match.group().encode("unicode_escape").decode("ascii"),
        text.replace("\r\n", "\n"),
    )
