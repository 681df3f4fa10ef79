"""The arguments that Airflow's own bases take, so that type checkers find a wrong name.

A stub for type checkers alone: there is no such module when a DAG is parsed.
"""

from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Required, TypedDict

from airflow.sdk import DAG, ObjectStoragePath, TaskGroup

from knowledge_bot.adapters import OnUnknown
from knowledge_bot.checks import Question
from knowledge_bot.ingest import Item
from knowledge_bot.origins import Origin

class BaseOperatorArguments(TypedDict, total=False):
    """What `airflow.sdk.BaseOperator` takes, over all releases that this provider supports."""

    task_id: str
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    dag: DAG | None
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    priority_weight: int
    weight_rule: Any
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: Any
    on_failure_callback: Any
    on_success_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    pre_execute: Any
    post_execute: Any
    trigger_rule: str
    resources: dict[str, Any] | None
    run_as_user: str | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Collection[Any] | Any
    outlets: Collection[Any] | Any
    task_group: TaskGroup | None
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None

class ServiceArguments(BaseOperatorArguments, total=False):
    """What each task takes that calls a service."""

    knowledge_bot_conn_id: str

class RequestArguments(ServiceArguments, total=False):
    """What each task takes that sends one request."""

    on_unknown: OnUnknown

class SourceArguments(RequestArguments, total=False):
    """What each task takes that creates a source."""

    source_name: Required[str]
    collections: str | Sequence[str] | None

class OriginArguments(ServiceArguments, total=False):
    """What each task takes that reads an origin."""

    origin: Required[Origin | Iterable[Item | dict[str, Any]] | Callable[..., Any]]
    origin_name: str | None

class QuestionArguments(ServiceArguments, total=False):
    """What each task takes that asks questions."""

    bot_id: str | None
    questions: Iterable[Question | dict[str, Any]] | None
    file: str | PathLike[str] | ObjectStoragePath | None
    min_pass: float
    concurrency: int

class OfSensors(TypedDict, total=False):
    """What `airflow.sdk.BaseSensorOperator` takes, without its interval, timeout and mode."""

    soft_fail: bool
    exponential_backoff: bool
    max_wait: timedelta | float | None
    silent_fail: bool
    never_fail: bool

class AnswerSensorArguments(QuestionArguments, OfSensors, total=False):
    """What a sensor takes that asks questions, without its interval, timeout and mode."""

class PingSensorArguments(ServiceArguments, OfSensors, total=False):
    """What a sensor takes that calls a service."""

    poke_interval: timedelta | float
    timeout: timedelta | float | None
    mode: str
