"""Give an agent bots as tools.

An agent needs a model that calls tools, and a bot cannot do that. `StandIn` replaces the model
here, so that the example needs no other service: it asks every tool the user's question and repeats
the answers. With your own model, `langchain.agents.create_agent(model, tools)` makes the same
graph.
"""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import override

from handbook_service import handbook_service
from langchain_knowledge_bot import KnowledgeBotToolkit


class StandIn(BaseChatModel):
    """A model that calls each of its tools once, and then repeats their answers."""

    @property
    @override
    def _llm_type(self) -> str:
        return "stand-in"

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Pass the tools to every call."""
        return self.bind(tools=tools, **kwargs)

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        heard = [f"{each.name}: {each.text}" for each in messages if isinstance(each, ToolMessage)]
        calls = [
            {"name": tool.name, "args": {"question": messages[-1].text}, "id": f"call_{tool.name}"}
            for tool in ([] if heard else kwargs["tools"])
        ]
        answer = AIMessage("\n".join(heard), tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def main() -> None:
    """Ask an agent that can ask every bot."""
    with handbook_service() as client:
        tools = KnowledgeBotToolkit(client=client).get_tools()
        model = StandIn().bind_tools(tools)

        def think(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode(tools))
        graph.set_entry_point("think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")

        question = "Which protection is compulsory at the table saw?"
        state = graph.compile().invoke({"messages": [HumanMessage(question)]})
        for message in state["messages"]:
            message.pretty_print()


if __name__ == "__main__":
    main()
