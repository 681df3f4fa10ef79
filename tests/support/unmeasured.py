"""The environment of a process that is sent SIGTERM, or forks beside its threads."""

import os


def unmeasured() -> dict[str, str]:
    """Return this process's environment without what makes coverage measure a child.

    Coverage would handle SIGTERM first there, and kbot leaves others' handlers alone. Its own locks
    stay taken in a fork while another thread is being measured.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
