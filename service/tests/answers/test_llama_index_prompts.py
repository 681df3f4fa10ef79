"""LlamaIndex's own prompts, as they are installed: the service finds the question in each."""

import pytest
from llama_index.core.chat_engine import condense_question
from llama_index.core.prompts import chat_prompts, default_prompts
from llama_index.core.query_engine import citation_query_engine

from knowledge_bot_service.answers.prompts import question_in

QUESTION = "Who repairs the mill at Torvik?"
GIVEN = {
    "query_str": QUESTION,
    "question": QUESTION,
    "context_str": "The bridge has a toll.\n\nWho pays it? The drivers do.",
    "context_msg": "The bridge has a toll.\n\nWho pays it? The drivers do.",
    "existing_answer": "The state does.",
    "chat_history": "user: Who is the mayor?\nassistant: Nobody knows.",
    "context_list": "(1) About the bridge\n(2) About the toll",
    "num_chunks": 2,
}
PROMPTS = {
    "text_qa": default_prompts.DEFAULT_TEXT_QA_PROMPT,
    "tree_summarize": default_prompts.DEFAULT_TREE_SUMMARIZE_PROMPT,
    "refine": default_prompts.DEFAULT_REFINE_PROMPT,
    "simple_input": default_prompts.DEFAULT_SIMPLE_INPUT_PROMPT,
    "condense": condense_question.DEFAULT_PROMPT,
    "citation_qa": citation_query_engine.CITATION_QA_TEMPLATE,
    "citation_refine": citation_query_engine.CITATION_REFINE_TEMPLATE,
    "choice": default_prompts.DEFAULT_QUERY_PROMPT,
    "chat_text_qa": chat_prompts.CHAT_TEXT_QA_PROMPT,
    "chat_tree_summarize": chat_prompts.CHAT_TREE_SUMMARIZE_PROMPT,
    "chat_refine": chat_prompts.CHAT_REFINE_PROMPT,
}


@pytest.mark.parametrize("name", PROMPTS)
def test_the_question_of_a_prompt_is_found(name):
    (*_, asked) = PROMPTS[name].format_messages(**GIVEN)
    assert question_in(asked.content) == QUESTION
