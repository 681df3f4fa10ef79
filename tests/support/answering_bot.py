"""A bot in memory, and what Airflow gives to a task, without Airflow."""

import json
from collections import Counter
from types import SimpleNamespace

from knowledge_bot.testing import MemoryService

URL = "https://service.test"
OPENING = {"ask": "When do you open?", "contains": "nine"}
PARKING = {"ask": "Where do visitors park?", "contains": ["behind", "workshop"]}
KEYS = {"ask": "Where are the keys?", "contains_any": ["desk", "caretaker"]}
RIGHT = {
    "When do you open?": "At nine.",
    "Where do visitors park?": "Behind the workshop.",
    "Where are the keys?": "At the desk.",
}
ONCE = Counter(RIGHT.keys())


class Bot(MemoryService):
    """A service whose bot `bot_guide` answers each question by its text.

    Attributes:
        knows: what it answers; `RIGHT` unless a test changes it.
    """

    def __init__(self):
        self.knows = dict(RIGHT)
        super().__init__(bots={"bot_guide": self.knows})

    @property
    def asked(self):
        """How often each question arrived, for whatever bot, also where it was not answered."""
        return Counter(one.value["content"] for one in self.requests if one.method == "POST")


def where(question):
    """Tell the requests that ask this."""
    return lambda request: request.value.get("content") == question["ask"]


AWAY = {"silence": "time_out_next", "close": "lose_next_answer", "503": "fail_next"}
"""What a service that is away does to requests, which then end with an unknown outcome."""


class StateStore(dict):
    """What Airflow 3.3 offers to a task as `context["task_state_store"]`, without its database."""

    def __init__(self):
        super().__init__()
        self.writes, self.retentions = 0, {}

    def set(self, key, value, *, retention=None):
        self.writes += 1
        self.retentions[key] = retention
        self[key] = json.loads(json.dumps(value))

    def delete(self, key):
        self.pop(key, None)


class TaskInstance(SimpleNamespace):
    """What a task hands on, and what it asks Airflow about itself."""

    def __init__(self, max_tries=2):
        super().__init__(max_tries=max_tries, xcoms={})

    def xcom_push(self, key, value):
        self.xcoms[key] = json.loads(json.dumps(value))

    def get_first_reschedule_date(self, context):
        return None
