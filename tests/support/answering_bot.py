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


class Bot(ScriptedServer):
    """A service whose bot answers each question by its text, and counts how often it is asked."""

    def __init__(self):
        self.answers = dict(RIGHT)
        super().__init__(reply_to=self.chosen)

    def chosen(self, received):
        if received.path.endswith("/bots"):
            return answer(body={"data": [{"id": "bot_guide", "name": "Guide"}]})
        value = received.json()["value"]
        if value["bot_id"] != "bot_guide":
            return answer(400, {"code": "unknown", "message": f"No bot {value['bot_id']}."})
        given = self.answers.get(value["content"], "I do not know.")
        if isinstance(given, str):
            given = answer(body={"value": MESSAGE | {"answer": given}})
        return given

    @property
    def asked(self):
        """How often each question arrived."""
        posts = [one for one in self.requests if one.method == "POST"]
        return Counter(one.json()["value"]["content"] for one in posts)


class StateStore(dict):
    """What Airflow 3.3 offers to a task as `context["task_state_store"]`, without its database."""

    writes = 0

    def set(self, key, value):
        self.writes += 1
        self[key] = json.loads(json.dumps(value))


class TaskInstance(SimpleNamespace):
    """What a task hands on, and what it asks Airflow about itself."""

    def __init__(self, max_tries=2):
        super().__init__(max_tries=max_tries, xcoms={})

    def xcom_push(self, key, value):
        self.xcoms[key] = json.loads(json.dumps(value))

    def get_first_reschedule_date(self, context):
        return None
