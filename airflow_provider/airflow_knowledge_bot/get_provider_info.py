"""What Airflow's provider discovery reads: entry point `apache_airflow_provider`.

Discovery runs in every Airflow process, before Airflow's configuration is ready, so nothing of
Airflow is imported here.
"""

import json
from pathlib import Path
from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, as `airflow/provider_info.schema.json` defines it.

    It stands in `provider.json`. `package-name` must be the distribution's name, or discovery
    fails. `conn-fields` make the connection form of Airflow 3.2 and later; what they hold lands in
    the connection's extra. The defaults there only prefill the form:
    `airflow_knowledge_bot.hooks.connections` applies them.
    """
    file = Path(__file__).with_name("provider.json")
    info: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return info


class ConnectionForm:
    """What a hook tells Airflow 3.1 of its connection's form; later ones read the above alone."""

    conn_type: str

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the form's labels."""
        (behaviour,) = [
            each["ui-field-behaviour"]
            for each in get_provider_info()["connection-types"]
            if each["connection-type"] == cls.conn_type
        ]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}
