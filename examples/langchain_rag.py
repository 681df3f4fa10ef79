"""Let bots retrieve and another model write.

Each document is a passage that a bot would answer from, with its source in the metadata; where the
service finds no passages, it is the bot's answer. `ParrotFakeChatModel` replaces
the writing model here, so that the example needs no other service. It repeats its input, which
shows what your own model would read.
"""

from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.language_models import ParrotFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from handbook_service import handbook_service
from langchain_knowledge_bot import KnowledgeBotRetriever

PROMPT = ChatPromptTemplate.from_template(
    "Answer the question from what the bots know.\n\nQuestion: {question}\n\n{answers}"
)


def as_text(documents: Sequence[Document]) -> str:
    """Return what the bots know as text, each after the bot's name."""
    return "\n\n".join(f"{each.metadata['bot_id']}: {each.page_content}" for each in documents)


def main() -> None:
    """Let two bots find what they know, and the model write an answer from it."""
    with handbook_service() as client:
        retriever = KnowledgeBotRetriever(
            bot_ids=["bot_lending", "bot_workshop"], k=3, drop_refusals=True, client=client
        )
        chain = (
            {"answers": retriever | as_text, "question": RunnablePassthrough()}
            | PROMPT
            | ParrotFakeChatModel()
            | StrOutputParser()
        )
        print(chain.invoke("Which protection is compulsory at the table saw?"))


if __name__ == "__main__":
    main()
