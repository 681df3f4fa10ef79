"""Texts to ingest."""

from knowledge_bot.ingest import Text


def texts(count: int, content: str = "Some text") -> list[Text]:
    """Return texts named `t0`, `t1`, and so on, each with a content of its own."""
    return [Text(name=f"t{number}", content=f"{content} {number}.") for number in range(count)]
