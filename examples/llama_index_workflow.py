"""A workflow that asks two bots at the same time and joins their answers."""

import asyncio

from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from handbook_service import handbook_service
from knowledge_bot import Client
from llama_index_knowledge_bot import KnowledgeBotQueryEngine

BOTS = ["bot_lending", "bot_workshop"]


class Question(Event):
    """A question for one bot."""

    bot_id: str
    text: str


class Answer(Event):
    """What that bot answered."""

    bot_id: str
    text: str


class AskAll(Workflow):
    """Asks every bot, and returns all answers in the order of the bots."""

    def __init__(self, client: Client) -> None:
        super().__init__(timeout=60)
        self._engines = {bot: KnowledgeBotQueryEngine(bot, client=client) for bot in BOTS}

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Question | None:
        """Send the question to each bot."""
        for bot in BOTS:
            ctx.send_event(Question(bot_id=bot, text=ev.question))
        return None

    @step(num_workers=4)
    async def ask(self, ev: Question) -> Answer:
        """Ask one bot. The steps for several bots run at the same time."""
        response = await self._engines[ev.bot_id].aquery(ev.text)
        return Answer(bot_id=ev.bot_id, text=str(response))

    @step
    async def join(self, ctx: Context, ev: Answer) -> StopEvent | None:
        """Wait for all answers."""
        answers = ctx.collect_events(ev, [Answer] * len(BOTS))
        if answers is None:
            return None
        told = {answer.bot_id: answer.text for answer in answers}
        return StopEvent(result="\n\n".join(f"{bot}: {told[bot]}" for bot in BOTS))


async def main() -> None:
    """Run the workflow once."""
    with handbook_service() as client:
        print(await AskAll(client).run(question="What does it cost?"))


if __name__ == "__main__":
    asyncio.run(main())
