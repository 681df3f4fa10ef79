"""Numbers and dates of spreadsheets, as a person sees them."""

import re
from typing import Final


def shown(value: float, code: str, *, since_1904: bool = False) -> str:
    """A number in the format of its cell, such as `0.0%` (ECMA-376-1, 18.8.31).

    Dates and times are as in ISO 8601, whatever their format.
    """
    bare = _LITERAL.sub("", code).lower()
    try:
        if _DATE.search(bare) and not _NUMBER.search(bare):
            return _date(value, bare, since_1904)
        positive, *others = _LITERAL.sub(_said, code).split(";")
        return _number(value, others[0] if value < 0 and others else positive, bool(others))
    except (ValueError, OverflowError):
        return _general(value)


BUILT_IN: Final = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00",
    **dict.fromkeys((14, 15, 16, 17), "y-m-d"), **dict.fromkeys((18, 20), "h:m"),
    **dict.fromkeys((19, 21, 45, 47), "h:m:s"), 22: "y-m-d h:m", 46: "[h]:m:s",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00",
}  # fmt: skip
"""The formats that have a number alone; others are general."""

# Words in quotes, a character after a backslash, a gap as wide as a character or filled with one,
# and in brackets a colour, a condition, a currency, but not hours beyond a day.
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[(?![hms]+\])[^\]]*\]')
_DATE: Final = re.compile(r"[ymdhs]")
_NUMBER: Final = re.compile(r"[#?]|(?<![.s0])0")
_DIGITS: Final = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?(,*)(E[+-]0+)?", re.IGNORECASE)


def _said(found: re.Match[str]) -> str:
    return found[1] or found[2] or found[3] or ""


def _number(value: float, form: str, has_own_sign: bool) -> str:
    found = _DIGITS.search(form)
    if found is None or "/" in form:
        return _general(value)
    places, thousands, exponent = found.groups()
    size = abs(value) * (100 if "%" in form else 1) / 1000 ** len(thousands)
    number = (
        f"{size:{',' if ',' in found[0] else ''}.{len(places or '')}{'E' if exponent else 'f'}}"
    )
    if places and places.endswith("#"):
        number = number.rstrip("0").removesuffix(".")
    sign = "-" if value < 0 and not has_own_sign else ""
    return " ".join(f"{sign}{form[: found.start()]}{number}{form[found.end() :]}".split())


def _general(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < _LARGE else f"{value:.11g}"


_LARGE: Final = 1e15


def _date(value: float, form: str, since_1904: bool) -> str:
    from xlrd.xldate import xldate_as_datetime

    seconds = round(value * 86400)
    if "[" in form:
        return f"{seconds // 3600}:{seconds // 60 % 60:02}" + f":{seconds % 60:02}" * ("s" in form)
    moment = xldate_as_datetime(seconds / 86400, since_1904)
    day = "%Y-%m-%d" if re.search("[yd]", form) else ""
    time = "%H:%M" + ":%S" * ("s" in form) if re.search("[hs]", form) else ""
    return f"{moment:{f'{day} {time}'.strip()}}"
