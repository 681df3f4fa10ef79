"""A bot with scripted answers, and what Airflow gives to a task, without Airflow."""

import json
from collections import Counter
from types import SimpleNamespace

from calls import MESSAGE
from scripted_server import ScriptedServer, answer

OPENING = {"ask": "When do you open?", "contains": "nine"}
PARKING = {"ask": "Where do visitors park?", "contains": ["behind", "workshop"]}
KEYS = {"ask": "Where are the keys?", "contains_any": ["desk", "caretaker"]}
RIGHT = {
    "When do you open?": "At nine.",
    "Where do visitors park?": "Behind the workshop.",
    "Where are the keys?": "At the desk.",
}
ONCE = Counter(RIGHT.keys())


class Bots(ScriptedServer):
    """A service whose bots answer each question by its text, and count how often it is asked.

    Args:
        bots: for each bot what it answers otherwise than `RIGHT`: a text, a reply, or several for
            one question, of which the last one repeats.
    """

    def __init__(self, **bots):
        self.answers = {bot: RIGHT | others for bot, others in bots.items()}
        super().__init__(reply_to=self.chosen)

    def chosen(self, received):
        if received.path.endswith("/bots"):
            return answer(body={"data": [{"id": one, "name": "Guide"} for one in self.answers]})
        value = received.json()["value"]
        if value["bot_id"] not in self.answers:
            return answer(400, {"code": "unknown", "message": f"No bot {value['bot_id']}."})
        given = self.answers[value["bot_id"]].get(value["content"], "I do not know.")
        if isinstance(given, list):
            given = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(given, str):
            given = answer(body={"value": MESSAGE | {"answer": given}})
        return given

    def asked_of(self, bot):
        """Count how often each question arrived for a bot."""
        posts = [one.json()["value"] for one in self.requests if one.method == "POST"]
        return Counter(one["content"] for one in posts if one["bot_id"] == bot)


class Bot(Bots):
    """The same with `bot_guide` alone.

    Attributes:
        knows: what it answers.
        asked: how often each question arrived, for whatever bot.
    """

    def __init__(self):
        super().__init__(bot_guide={})
        self.knows = self.answers["bot_guide"]

    @property
    def asked(self):
        posts = [one.json()["value"] for one in self.requests if one.method == "POST"]
        return Counter(one["content"] for one in posts)


class StateStore(dict):
    """What Airflow 3.3 offers to a task as `context["task_state_store"]`, without its database."""

    writes = 0

    def set(self, key, value):
        self.writes += 1
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
