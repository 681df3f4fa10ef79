"""Print the tools that `kbot mcp --allow-writes` offers, as a client lists them."""

import asyncio
import sys

from mcp import Client

from gateways import upstream
from knowledge_bot.testing import MemoryService
from knowledge_bot_gateway import create_mcp_server


async def listed() -> str:
    service = MemoryService(bots={"bot_guide": {}}, extensions={"passages"})
    with service.standing_in():
        server = create_mcp_server(upstream(), allow_writes=True)
        async with Client(server) as client:
            return (await client.list_tools()).model_dump_json(by_alias=True, exclude_none=True)


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(listed()))
