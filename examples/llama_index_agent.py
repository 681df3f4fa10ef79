"""Give an agent bots as tools.

An agent needs a model that calls functions, and a bot cannot do that. `StandIn` replaces the model
here, so that the example needs no other service: it calls the first tool with the user's question
and repeats the answer. Replace it with your own model, such as `OpenAI(model=…)`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import (
    ChatMessage,
    ChatResponse,
    ChatResponseGen,
    LLMMetadata,
    MessageRole,
    MockLLM,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool

from handbook_service import handbook_service
from llama_index_knowledge_bot import bot_tools


class StandIn(MockLLM, FunctionCallingLLM):
    """A model that calls the first tool, and then repeats its answer."""

    @property
    def metadata(self) -> LLMMetadata:
        """A model that calls functions."""
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer with a call, or with the result of a call."""
        (*_, last) = messages
        if last.role is MessageRole.TOOL:
            said = ChatMessage(role=MessageRole.ASSISTANT, content=last.content)
        else:
            call = ToolSelection(
                tool_id="call_1",
                tool_name=kwargs["tools"][0].metadata.name,
                tool_kwargs={"input": last.content},
            )
            said = ChatMessage(role=MessageRole.ASSISTANT, additional_kwargs={"tool_calls": [call]})
        return ChatResponse(message=said, delta=said.content)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer in one piece."""

        def pieces() -> ChatResponseGen:
            yield self.chat(messages, **kwargs)

        return pieces()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        """Return the calls in an answer."""
        calls: list[ToolSelection] = response.message.additional_kwargs.get("tool_calls", [])
        return calls

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        asked = ChatMessage(content=user_msg) if isinstance(user_msg, str) else user_msg
        return {"messages": [*(chat_history or []), *([asked] if asked else [])], "tools": tools}


async def main() -> None:
    """Ask an agent that can ask every bot."""
    with handbook_service() as client:
        tools = bot_tools(client, descriptions={"bot_handbook": "All rules of the tool library."})
        agent = FunctionAgent(tools=tools, llm=StandIn())
        result = await agent.run("Which protection is compulsory at the table saw?")
        print(f"{result.tool_calls[0].tool_name} was called.\n\n{result}")


if __name__ == "__main__":
    asyncio.run(main())
