"""Why something could not be fetched, for the person who gave its address."""


class FetchError(Exception):
    """An address could not be fetched. `str()` is the reason; it shows no query and no header."""


class NoAnswerError(FetchError):
    """A server gave no answer, or only a part of one.

    Attributes:
        passing: whether another try may get one.
    """

    def __init__(self, reason: str, *, passing: bool = True) -> None:
        super().__init__(reason)
        self.passing = passing


class PassingError(FetchError):
    """A server answered that it cannot serve the page now."""
