"""Talk with a bot: the service keeps the conversation, and each turn is one message."""

from handbook_service import handbook_service
from llama_index_knowledge_bot import KnowledgeBotChatEngine

if __name__ == "__main__":
    with handbook_service() as client:
        chat = KnowledgeBotChatEngine("bot_handbook", client=client)
        print(chat.chat("How long is the loan period for hand tools?"), "\n")
        print(chat.chat("And for large machines?"), "\n")

        # A bot answers in one piece. The stream is for programs that need one.
        chat.stream_chat("Can they be renewed?").print_response_stream()

        print(f"\n\n{len(chat.chat_history)} messages in one conversation", end="")
        first = chat.conversation_id
        chat.reset()
        chat.chat("Who leads the repair evening?")
        print(f", and {len(chat.chat_history)} in another: {chat.conversation_id != first}")
