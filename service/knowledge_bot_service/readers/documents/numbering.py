"""How items of a list are numbered: letters, Roman numbers and the like."""

from typing import Final


def numeral(number: int, form: str) -> str:
    """A number in a form as Word or OpenDocument names it; "" in one that has no number."""
    kind = _FORMS.get(form, form)
    if kind in {"none", "bullet", ""}:
        return ""
    if kind == "decimalZero":
        return f"{number:02}"
    text = _letters(number) if "Letter" in kind else _roman(number) if "Roman" in kind else ""
    return (text.upper() if kind.startswith("upper") else text) or str(number)


_FORMS: Final = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


def _letters(number: int) -> str:
    # After "z" comes "aa", and after that "bb" (ECMA-376-1, 17.18.59).
    turns, at = divmod(number - 1, 26)
    return chr(ord("a") + at) * min(turns + 1, _MAX_TURNS) if number > 0 else ""


def _roman(number: int) -> str:
    if not 0 < number < _MAX_ROMAN:
        return ""
    found = ""
    for value, letters in _ROMAN:
        times, number = divmod(number, value)
        found += letters * times
    return found


_MAX_TURNS: Final = 4
_MAX_ROMAN: Final = 4000
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
