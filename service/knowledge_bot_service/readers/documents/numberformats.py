"""Numbers and dates of spreadsheets, as a person sees them."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final


def shown(value: float, code: str, *, since_1904: bool = False) -> str:
    """A number in the format of its cell, such as `0.0%` or `d.m.yyyy` (ECMA-376-1, 18.8.31).

    Dates without a format of their own are as in ISO 8601, and names of months in English.
    """
    form = _form(code, value > 0 or not value)
    try:
        return _date(value, form, since_1904) if _is_date(form) else _number(value, form)
    except (ValueError, OverflowError):
        return _general(value)


BUILT_IN: Final = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;-#,##0",
    38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00", 45: "mm:ss",
    46: "[h]:mm:ss", 47: "mm:ss",
}  # fmt: skip
"""The formats that have a number alone; others are general."""

# Words in quotes, a character after a backslash, a gap as wide as a character or filled with one,
# and in brackets a colour, a condition, a currency or hours beyond a day.
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[(?![hms]+\])[^\]]*\]')
_DATE_PART: Final = re.compile(
    r"\[(h+|m+|s+)\]|(yyyy|yy|mmmmm|mmmm|mmm|mm|m|dddd|ddd|dd|d|hh|h|ss|s)(?:\.0+)?|(am/pm|a/p)",
    re.IGNORECASE,
)
_MINUTES: Final = re.compile(r"(?<=h:)mm?|(?<=hh:)mm?|(?<=\]:)mm?|mm?(?=:ss?)", re.IGNORECASE)
_DIGITS: Final = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?(,*)(E[+-]0+)?", re.IGNORECASE)
# What stands for a literal, from the first one on: no format has characters for private use.
_FIRST: Final = 0xE000
_STANDS_FOR: Final = re.compile("[\ue000-\uf8ff]")


@lru_cache(maxsize=1000)
def _form(code: str, is_positive: bool) -> tuple[str, tuple[str, ...], bool]:
    """The part of a format for such a number, its literals by number, and whether it has a sign."""
    literals: list[str] = []

    def kept(found: re.Match[str]) -> str:
        text = found[1] or found[2] or found[3] or ""
        literals.append(text)
        return chr(_FIRST + len(literals) - 1) if text else ""

    parts = _LITERAL.sub(kept, code.strip()).split(";")
    is_own = not is_positive and len(parts) > 1 and bool(parts[1])
    return parts[1] if is_own else parts[0], tuple(literals), is_own


def _is_date(form: tuple[str, tuple[str, ...], bool]) -> bool:
    bare = _STANDS_FOR.sub("", form[0]).lower()
    return bare != "general" and bool(re.search(r"[ymdhs]", bare)) and not re.search(r"[#?]", bare)


def _with(text: str, literals: tuple[str, ...]) -> str:
    return " ".join(_STANDS_FOR.sub(lambda found: literals[ord(found[0]) - _FIRST], text).split())


def _number(value: float, form: tuple[str, tuple[str, ...], bool]) -> str:
    code, literals, has_sign = form
    found = _DIGITS.search(code)
    if found is None or "/" in code:
        words = _with(code, literals)
        is_plain = not words or words.lower() == "general" or "@" in words or "/" in words
        return _general(value) if is_plain else words
    value = abs(value) if has_sign else value
    value = value * 100 if "%" in code else value
    value /= 1000 ** len(found[2])
    places = found[1] or ""
    if found[3]:
        number = f"{value:.{len(places)}E}"
    else:
        number = f"{value:{',' if ',' in found[0] else ''}.{len(places)}f}"
        optional = len(places) - len(places.rstrip("#"))
        for _ in range(optional):
            number = number.removesuffix("0")
        number = number.removesuffix(".") if optional else number
    before, after = code[: found.start()], code[found.end() :]
    if number.startswith("-"):
        before, number = f"-{before}", number[1:]
    return _with(f"{before}{number}{_DIGITS.sub('', after)}", literals)


def _general(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < _LARGE else f"{value:.11g}"


_LARGE: Final = 1e15


def _date(value: float, form: tuple[str, tuple[str, ...], bool], since_1904: bool) -> str:
    code, literals, _ = form
    # The first of January 1900 is 1; the 29th of February 1900, which never was, is 60.
    begin = _SINCE_1904 if since_1904 else _SINCE_1900 + timedelta(days=value < _NEVER)
    seconds = round(value * 86400)
    moment = begin + timedelta(seconds=seconds)
    in_half = "/p" in code.lower()

    def part(found: re.Match[str]) -> str:
        if found[1]:
            return f"{seconds // _SIZES[found[1][0].lower()]:0{len(found[1])}d}"
        one = (found[2] or "am/pm").lower()
        text = moment.strftime(_IN_HALF.get(one, _PARTS[one]) if in_half else _PARTS[one])
        return text.lstrip("0") or "0" if len(one) == 1 else text

    code = _MINUTES.sub(lambda found: f"{moment.minute:0{len(found[0])}d}", code)
    return _with(_DATE_PART.sub(part, code.replace("@", "")), literals)


_SINCE_1900: Final = datetime(1899, 12, 30, tzinfo=UTC)
_SINCE_1904: Final = datetime(1904, 1, 1, tzinfo=UTC)
_NEVER: Final = 60
_SIZES: Final = {"h": 3600, "m": 60, "s": 1}
# Parts of a date as `strftime` names them; those of one letter are without a zero before them.
_PARTS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "mmmmm": "%b",
    "mmmm": "%B",
    "mmm": "%b",
    "mm": "%m",
    "m": "%m",
    "dddd": "%A",
    "ddd": "%a",
    "dd": "%d",
    "d": "%d",
    "hh": "%H",
    "h": "%H",
    "ss": "%S",
    "s": "%S",
    "am/pm": "%p",
}
_IN_HALF: Final = {"hh": "%I", "h": "%I"}
