"""Names that moved between Airflow 3.1 and 3.3, and other differences between their releases.

The public modules import this one before Airflow, so that a missing Airflow is reported in one
sentence. `airflow.providers.common.compat` is not used: managed Airflow services pin releases of it
that lack the newer names.
"""

try:  # 3.2 and later
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
    )
except ImportError:
    try:  # 3.1
        from airflow.configuration import conf
        from airflow.exceptions import (  # type: ignore[attr-defined,no-redef]
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
        )
    except ImportError:
        from knowledge_bot.adapters import require

        require("airflow_knowledge_bot", "airflow", "airflow")
        raise

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "conf",
]
