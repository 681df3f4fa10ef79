"""The operator that asks a bot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_knowledge_bot.hooks import MESSAGE_FIELDS, KnowledgeBotHook
from airflow_knowledge_bot.operators.request import RequestOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.intents import OnUnknown


class KnowledgeBotSendMessageOperator(RequestOperator):
    """Sends a message to a bot and returns its answer (POST /messages).

    XCom: `id`, `answer`, `conversation_id` and `created_at` (Unix milliseconds).

    Args:
        bot_id: the bot that is asked (templated); by default the connection's `default_bot_id`.
        content: the message (templated).
        conversation_id: the conversation that it continues (templated); by default a new one.
        knowledge_bot_conn_id: the connection (templated).
        on_unknown: what to do if the service may have acted although no answer arrived: `hold`
            fails for good, so that nothing is sent twice; `resend` lets Airflow's next try send it.
    """

    endpoint = "send_message"
    parameters = ("bot_id", "content", "conversation_id")
    required = ("bot_id", "content")
    default = ("bot_id", "default_bot_id")
    named_by = "content"
    answer_fields = MESSAGE_FIELDS
    template_fields: Sequence[str] = (
        "bot_id",
        "content",
        "conversation_id",
        "knowledge_bot_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"content": "md"}

    def __init__(
        self,
        *,
        content: str,
        bot_id: str | None = None,
        conversation_id: str | None = None,
        knowledge_bot_conn_id: str = KnowledgeBotHook.default_conn_name,
        on_unknown: "OnUnknown" = "hold",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            knowledge_bot_conn_id=knowledge_bot_conn_id, on_unknown=on_unknown, **kwargs
        )
        self.bot_id = bot_id
        self.content = content
        self.conversation_id = conversation_id

    def _created(self, request: dict[str, Any], answer: dict[str, Any]) -> str:
        return (
            f"the message {answer['id']} to the bot {request['bot_id']} in the conversation "
            f"{answer['conversation_id']}"
        )

    def _done(self, context: "Context", base_url: str, answer: dict[str, Any]) -> None:  # noqa: ARG002 - no asset to name
        from airflow_knowledge_bot.places import describe_outlets

        # The service does not say which collections a bot reads (interface section 2), so an alias
        # stays empty.
        extra = {"message_id": answer["id"], "conversation_id": answer["conversation_id"]}
        describe_outlets(context, self.outlets, [], extra)
