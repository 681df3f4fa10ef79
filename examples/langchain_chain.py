"""Use a bot in a chain: ask one question, ask several at once, and stream an answer.

The service answers in one piece, so a stream has one chunk. Later steps of a chain need not know
this.
"""

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from handbook_service import handbook_service
from langchain_knowledge_bot import ChatKnowledgeBot

ABOUT = ("a household membership", "an individual membership", "a lost tool")


def main() -> None:
    """Ask in three ways."""
    with handbook_service() as client:
        bot = ChatKnowledgeBot(bot_id="bot_lending", client=client)
        prompt = ChatPromptTemplate([("human", "What does {subject} cost?")])
        chain = prompt | bot | StrOutputParser()

        print("invoke:", chain.invoke({"subject": ABOUT[0]}), sep="\n")

        print("\nbatch:")
        for answer in chain.batch([{"subject": subject} for subject in ABOUT]):
            print(answer)

        print("\nstream:")
        for piece in chain.stream({"subject": ABOUT[1]}):
            print(piece, end="", flush=True)

        print("\n\na conversation:")
        history: list[BaseMessage] = [HumanMessage("How long is the loan period for hand tools?")]
        history.append(bot.invoke(history))
        history.append(HumanMessage("And for large machines?"))  # only this message is sent
        history.append(bot.invoke(history))
        print(history[1].text, history[3].text, sep="\n")
        print("in", {message.response_metadata["conversation_id"] for message in history[1::2]})


if __name__ == "__main__":
    main()
