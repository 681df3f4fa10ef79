"""`kbot`, the command line of the Knowledge-Bot Service.

It needs the extra `cli`, which code that only calls the service does without.
"""

import sys
from typing import TYPE_CHECKING

from knowledge_bot._extras import is_there

if TYPE_CHECKING:
    from knowledge_bot.cli.kbot import main

__all__ = ["main"]


if _missing := [module for module in ("click", "rich") if not is_there(module)]:

    def main() -> None:  # type: ignore[misc] # in the place of click's command
        """Say what `kbot` lacks."""
        sys.stderr.write(
            f"Error: kbot needs {' and '.join(_missing)}: pip install 'knowledge-bot[cli]'\n"
        )
        raise SystemExit(1)

else:
    from knowledge_bot.cli.kbot import main
