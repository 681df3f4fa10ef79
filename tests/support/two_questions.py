"""A file of two questions, and bots' answers to them."""

OPENS, LEADS = "When do you open?", "Who leads it?"

QUESTIONS = f"""\
[[questions]]
ask = "{OPENS}"
contains = "9:30"

[[questions]]
ask = "{LEADS}"
contains = "Mia"
"""

RIGHT = {OPENS: "At 9:30.", LEADS: "Mia does."}
HALF = {**RIGHT, LEADS: "Max does."}
