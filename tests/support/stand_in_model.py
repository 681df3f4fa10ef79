"""A chat model that calls its tools, in the place of one that costs money."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class StandIn(BaseChatModel):
    """Calls each tool that it has, with the question for each field; then says what it heard."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool)["function"] for tool in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        calls = [
            {
                "name": tool["name"],
                "args": dict.fromkeys(tool["parameters"]["properties"], messages[-1].text),
                "id": f"call_{len(messages)}_{tool['name']}",
            }
            for tool in ([] if messages[-1].type == "tool" else kwargs.get("tools", []))
        ]
        said = AIMessage("" if calls else messages[-1].text, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])
