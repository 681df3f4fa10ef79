"""What Airflow's provider discovery reads: entry point `apache_airflow_provider`.

Discovery runs in every Airflow process, before Airflow's configuration is ready, so nothing of
Airflow is imported here.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, as `airflow/provider_info.schema.json` defines it.

    `package-name` must be the distribution's name, or discovery fails. `conn-fields` make the
    connection form of Airflow 3.2 and later; what they hold lands in the connection's extra. The
    defaults there only prefill the form: `airflow_knowledge_bot.connections` applies them.
    """
    return {
        "package-name": "airflow-provider-knowledge-bot",
        "name": "Knowledge-Bot",
        "description": "Feed a Knowledge-Bot Service with sources and ask its bots.",
        "integrations": [
            {
                "integration-name": "Knowledge-Bot",
                "how-to-guide": [
                    "/docs/airflow/ingest.md",
                    "/docs/airflow/operators.md",
                    "/docs/airflow/settle.md",
                    "/docs/how-to/check-in-airflow.md",
                ],
                "logo": "/integration-logos/knowledge-bot.svg",
                "tags": ["service", "ai"],
            }
        ],
        "hooks": [
            {
                "integration-name": "Knowledge-Bot",
                "python-modules": ["airflow_knowledge_bot.hooks", "airflow_knowledge_bot.ledgers"],
            }
        ],
        "operators": [
            {
                "integration-name": "Knowledge-Bot",
                "python-modules": ["airflow_knowledge_bot.operators"],
            }
        ],
        "sensors": [
            {
                "integration-name": "Knowledge-Bot",
                "python-modules": ["airflow_knowledge_bot.sensors"],
            }
        ],
        "triggers": [
            {
                "integration-name": "Knowledge-Bot",
                "python-modules": ["airflow_knowledge_bot.triggers"],
            }
        ],
        "notifications": ["airflow_knowledge_bot.notifications.KnowledgeBotTextNotifier"],
        "extra-links": ["airflow_knowledge_bot.places.KnowledgeBotServiceLink"],
        "asset-uris": [
            {
                "schemes": ["knowledgebot"],
                "handler": "airflow_knowledge_bot.places.sanitize_uri",
                "factory": "airflow_knowledge_bot.places.create_asset",
                "to_openlineage_converter": (
                    "airflow_knowledge_bot.places.convert_asset_to_openlineage"
                ),
            }
        ],
        "task-decorators": [
            {
                "name": "knowledge_bot_text",
                "class-name": "airflow_knowledge_bot.decorators.knowledge_bot_text_task",
            },
            {
                "name": "knowledge_bot_ingest",
                "class-name": "airflow_knowledge_bot.decorators.knowledge_bot_ingest_task",
            },
        ],
        "connection-types": [
            {
                "connection-type": "knowledge_bot",
                "hook-class-name": "airflow_knowledge_bot.hooks.KnowledgeBotHook",
                "hook-name": "Knowledge-Bot",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "login"],
                    "relabeling": {"host": "Base URL", "password": "API key"},
                    "placeholders": {"host": "https://service.example/public/v1"},
                },
                "conn-fields": {
                    "timeout": {
                        "label": "Timeout (seconds)",
                        "description": "How long one request may wait for its answer.",
                        "schema": {"type": ["number", "null"], "default": 60, "minimum": 0},
                    },
                    "max_retries": {
                        "label": "Retries within a task's try",
                        "description": (
                            "How often a request is resent on which the service cannot have acted. "
                            "A request on which it may have acted is never resent."
                        ),
                        "schema": {"type": ["integer", "null"], "default": 2, "minimum": 0},
                    },
                    "verify": {
                        "label": "Verify the TLS certificate",
                        "description": (
                            "For a certificate authority of your own, write the path of its PEM "
                            'file into the extra instead: {"verify": "/path/ca.pem"}.'
                        ),
                        "schema": {"type": ["boolean", "null"], "default": True},
                    },
                    "default_bot_id": {
                        "label": "Default bot",
                        "description": "The bot that tasks ask when they name none (bot_…).",
                        "schema": {"type": ["string", "null"]},
                    },
                    "default_collection_id": {
                        "label": "Default collection",
                        "description": "Where tasks put sources when they name none (col_…).",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            },
            {
                "connection-type": "knowledge_bot_ledger",
                "hook-class-name": "airflow_knowledge_bot.ledgers.KnowledgeBotLedgerHook",
                "hook-name": "Knowledge-Bot ledger",
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {
                        "host": "PostgreSQL host, or the path of a SQLite file",
                        "schema": "PostgreSQL database (empty for SQLite)",
                    },
                    "placeholders": {
                        "host": "/srv/airflow/knowledge-bot-ledger.db",
                        "extra": '{"sslmode": "require"}',
                    },
                },
            },
        ],
    }


def field_behaviour(connection_type: str) -> dict[str, Any]:
    """Return the labels of a connection's form as a hook spells them."""
    (behaviour,) = [
        each["ui-field-behaviour"]
        for each in get_provider_info()["connection-types"]
        if each["connection-type"] == connection_type
    ]
    return {key.replace("-", "_"): value for key, value in behaviour.items()}
