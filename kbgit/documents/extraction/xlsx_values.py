"""A cell's value as text: close to what its program shows, and the same in every language."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

from kbgit.documents.extraction import markdown

_HIDDEN_PARTS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!\$)[^\]]*\]')
_CURRENCY = re.compile(r"\[\$([^\]\-]*)(?:-[^\]]*)?\]|([$€£¥₹₩₽₺₪₫฿])")
_QUOTED = re.compile(r'"([^"]*)"')
_DIGITS = re.compile(r"[0#?][0#?,.]*")
_TIME_OF_DAY = re.compile(r"[hs]|AM/PM", re.IGNORECASE)
_MOST_DECIMALS = 10
_EXACT = 15
"""Digits that a program keeps of a number."""


def shown(value: object, number_format: str) -> str:
    """Inline Markdown of a cell's value; empty for none. Dates and times are ISO 8601."""
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return markdown.literal(number(value, number_format))
        case datetime():
            return _moment(value, number_format)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return duration(value)
        case _:
            return markdown.literal(str(value))


def _moment(value: datetime, number_format: str) -> str:
    if value.microsecond:  # a fraction of a day is rarely a whole number of microseconds
        value = (value + timedelta(microseconds=500_000)).replace(microsecond=0)
    if value.time() == time() and not _TIME_OF_DAY.search(_HIDDEN_PARTS.sub("", number_format)):
        return value.date().isoformat()
    return value.isoformat()


def duration(value: timedelta) -> str:
    """`26:30:00`: hours beyond a day stay hours, as in the sheet."""
    seconds = round(value.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def number(value: float, number_format: str) -> str:
    """A number with its percent sign or currency when its format has one; else its plain digits."""
    form = number_format.split(";")[0]
    bare = _HIDDEN_PARTS.sub("", form)
    if "%" in bare:
        return f"{_rounded(value * 100, bare)}%"
    currency = _CURRENCY.search(form)
    symbol = (currency[1] or currency[2] or "") if currency else ""
    at = currency.start() if currency else -1
    if not symbol:
        for quoted in _QUOTED.finditer(form):
            if quoted[1].strip() in {"€", "$", "£", "¥", "EUR", "USD", "CHF", "GBP"}:
                symbol, at = quoted[1].strip(), quoted.start()
    digits = _DIGITS.search(_QUOTED.sub(lambda match: " " * len(match[0]), form))
    if not symbol or digits is None:
        return _plain(value)
    said = _rounded(abs(value), bare)
    sign = "-" if value < 0 else ""
    if at > digits.start():
        return f"{sign}{said} {symbol}"
    return f"{sign}{symbol}{said}" if len(symbol) == 1 else f"{sign}{symbol} {said}"


def _rounded(value: float, bare: str) -> str:
    digits = _DIGITS.search(bare)
    form = digits[0] if digits else "0"
    decimals = min(len(form.partition(".")[2]), _MOST_DECIMALS)
    return f"{value:{',' if ',' in form else ''}.{decimals}f}"


def _plain(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 10**_EXACT:
        return str(int(value))
    return f"{value:.{_EXACT}g}"
