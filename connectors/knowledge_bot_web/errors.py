"""Why something could not be fetched, for the person who gave its address."""


class FetchError(Exception):
    """An address could not be fetched. `str()` is the reason; it shows no query and no header.

    Attributes:
        may_pass: whether another try may succeed later without anybody changing anything.
    """

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class NoAnswerError(FetchError):
    """A server gave no answer, or only a part of one."""

    def __init__(self, reason: str, *, may_pass: bool = True) -> None:
        super().__init__(reason, may_pass=may_pass)
