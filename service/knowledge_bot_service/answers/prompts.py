"""The question of a message that may be a prompt: instructions, context, examples, politeness.

Chains send whole prompts, such as LangChain's and LlamaIndex's own templates. Searched as it is, a
prompt finds what its instructions and its context are about. The rules were written for the
prompts of service/tests/answers/prompts.toml, and leave ordinary questions alone.
"""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from knowledge_bot_service.readers.analyzer import points_back, query_terms

# Of a longer prompt, so many characters of both ends are looked at.
_END: Final = 20_000

# Nobody types more than this around a question: a longer text is material for most of its length.
_TYPED: Final = 400

# A question of fewer words of its own cannot stand without the text that it is in. Around one
# question, so many characters are told before it rather than asked.
_ALONE: Final = 2
_TOLD: Final = 80

# How a prompt calls the question. What only technical texts call so must stand at the beginning of
# a line: "What does `invalid input: x` mean?"
_QUESTION: Final = (
    "questions?|quer(?:y|ies)|follow[- ]?up (?:input|message)|frage|anfrage|pregunta|consulta|"
    "pergunta|domanda|vraag|pytanie|kysymys|soru|вопрос|fråga|otázka|spørgsmål|kérdés|întrebare|"
    "pertanyaan|질문|質問|問題|问题|提问|سؤال|שאלה|प्रश्न|คำถาม"
)
_CONTEXT: Final = (
    "context|contexte|contexto|kontext|contesto|kontekst|bağlam|контекст|コンテキスト|上下文|문맥|"
    "documents?|passages?|sources?|excerpts?|articles?|text"
)
_ANSWER: Final = (
    "answers?|antwort|réponse|respuesta|resposta|risposta|antwoord|odpowiedź|vastaus|cevap|ответ|"
    "svar|odpověď|válasz|răspuns|답변|回答|答案|答え|الإجابة|תשובה|उत्तर|คำตอบ"
)
_COLON: Final = "[:：]"

# A label: what its line begins with, or holds alone, such as "## Question", "[質問]", "Q1:".
_LABEL: Final = re.compile(
    rf"(?im)^[^\w\n]*(?:(?:\w+ ){{0,3}}(?:{_QUESTION}|(?:user|human) input)|(?<!\w)input|Q\d*)"
    rf"(?:[^\w\n:：]*{_COLON}|\b[^.?!\n:：]{{1,30}}{_COLON}|[^\w\n.,?!]*\n)"
)

# What says inside a sentence that the question follows: "please answer the question: …"
_LEAD: Final = re.compile(
    rf"(?i)(?<![\w{{\"'])(?:{_QUESTION})(?![\w-])[^.?!\n:：]{{0,60}}{_COLON}(?!\w)"
)

# Where what follows a label ends: at another label, a rule, a fence, a tag, an answer to come.
_END_OF_QUESTION: Final = re.compile(
    rf"(?im)^[ \t]*(?:[^\w\s]+[ \t]*)?[^\W\d][\w'’ ()]{{0,40}}{_COLON}|"
    rf"^\W*(?:\w+ )?(?:{_ANSWER})\W*$|\s(?:helpful |final )?answer{_COLON}|"
    r"^[ \t]*(?:-{3,}|={3,}|```|\[/|</|<\||\[\[|【)"
)
_MATERIAL: Final = re.compile(
    rf"(?im)^[^\w\n]*(?:\w+ ){{0,2}}(?:{_CONTEXT})(?:\b[^.?!\n:：]{{0,30}}{_COLON}|[^\w\n]*$)"
)

# The last turn of the user in a template of a model's chat: of Llama, Mistral, Gemma, Alpaca,
# Vicuna, ChatML, and behind a name. Its marks begin the prompt or end it; a sentence may speak of
# them.
_TURN_BEGINS: Final = re.compile(
    r"(?m)\[INST\]|<\|(?:user|USER_TOKEN)\|>|<start_of_turn>user|<\|im_start\|>user"
    r"|<\|start_header_id\|>user<\|end_header_id\|>|^### (?:Instruction|User):|\bUSER:|^User:"
)
_TURN_ENDS: Final = re.compile(
    r"(?m)\[/INST\]|<\|\w+\|>|<end_of_turn>|</s>|^### (?:Response|Assistant):|\bASSISTANT:"
    r"|^Assistant:"
)
_BEFORE_TURNS: Final = re.compile(r"<[|/\w]+>|\[INST\]")
_SYSTEM: Final = re.compile(r"(?s)<<SYS>>.*?<</SYS>>")

_TAG: Final = re.compile(r"(?i)<((?:user[_-]?)?(?:question|query|input|frage|pregunta))>")
_FIELD: Final = re.compile(r'(?i)"(?:question|query|user_input)"\s*:\s*("(?:[^"\\]|\\.)+")')
_FIELDS: Final = ("question", "query", "user_input", "input", "prompt", "content")
_CODE: Final = re.compile(r"(?s)```.*?(?:```|$)")
_BESIDE: Final = re.compile(
    r"(?s)<(article|at|context|documents?|passages?|text)>(?:(?!<\1>).)*?</\1>|<@\w+>"
)

# What asks for a better answer to the question before it, from some more material.
_REFINES: Final = re.compile(
    r"(?i)\b(?:amend|complete|correct|enhance|extend|improve|refine|revise|rewrite|update)\b"
    r"[^.?!\n]{0,40}\b(?:the|this|that|your|its|existing|original|previous)\b[^.?!\n]{0,30}"
    r"\b(?:answer|reply|response)\b(?![^\n]{0,80}\?)"
    r"|\b(?:verfeiner|verbesser|überarbeite|ergänz|aktualisier)\w*[^.?!\n]{0,60}\bantwort\b"
    r"|\b(?:affine|améliore|complète|révise)\w*[^.?!\n]{0,60}\bréponse\b"
    r"|\b(?:refina|mejora|revisa|actualiza|completa)\w*[^.?!\n]{0,60}\brespuesta\b"
    r"|(?:完善|改进|优化|修改|更新)[^。？\n]{0,20}(?:回答|答案)"
)

_PIECE: Final = re.compile(r"(?<=[.!?…:])(?<!\b\w\.)\s+|(?<=[。！？：؟])\s*|\n+")
_ASKS: Final = re.compile(r"[?？؟]\W*$|;$")

# What is said around a question, and not about its subject: whole sentences ...
_MANNERS: Final = re.compile(
    r"(?i)(?:please (?:answer|respond|reply|keep|use|return|think|be|cite)\b"
    r"|answer (?:in|the|only|from|with|briefly|concisely)\b|respond\b|reply (?:in|terminate|with)\b"
    r"|return (?:a|only|the)\b|keep (?:it|the answer)\b|your (?:response|answer) (?:should|must)\b"
    r"|(?:format|give) (?:your|the) (?:answer|output|response)\b|cite (?:your|the|all) sources?\b"
    r"|(?:as an?|in (?:one|two|three|\d+)) (?:\w+ )?(?:list|points|sentences?|table|words)\b"
    r"|use (?:at most|no more than|only|three)\b|be (?:brief|concise)|let['’]?s think|think step"
    r"|explain (?:step by step|your)|if you do(?:n['’]t| not) know"
    r"|(?:do(?:n['’]t| not)|never) (?:guess|make|use)\b"
    r"|(?:\[?(?:system|user)\]?|here (?:is|are) [^.?!]*|:\w+):$"
    r"|(?:instructions?|q|role|rules|task)[.:]?$"
    r"|act as\b|you are (?:a|an)\b|i have an? (?:\w+ )?question|hi\b|hello\b|hey\b|dear\b"
    r"|good (?:morning|afternoon|evening|day)\b|i hope (?:you|this)\b"
    r"|(?:many )?thanks?\b|thx\b|cheers\b|(?:best|kind)? ?(?:wishes|regards)\b"
    r"|hallo\b|guten (?:tag|morgen|abend)|liebe[rs]?\b|(?:vielen |besten )?dank"
    r"|(?:bitte )?(?:be)?antworten?\b|bitte (?:als|auf|in|kurz|mit)\b|gib (?:die|deine) antwort\b"
    r"|(?:als|in) (?:eine[mr]? |zwei |drei )?(?:liste|sätzen|satz|stichpunkten|tabelle|worten)\b"
    r"|wenn du es nicht weißt|ich habe eine frage"
    r"|bonjour\b|merci\b|(?:veuillez |s['’]il (?:te|vous) plaît,? )?répond|en une phrase\b"
    r"|hola\b|gracias\b|(?:por favor,? )?respond[ae]|ciao\b|grazie\b|(?:per favore,? )?rispond[ai]"
    r"|merhaba\b|teşekkür)"
)
_CLOSING: Final = re.compile(
    r"(?im)^[ \t]*(?:(?:(?:best|kind|many|warm)? ?(?:thanks|wishes|regards)|best|cheers|sincerely"
    r"|thank you|sent from my|(?:(?:vielen|besten) )?dank|danke|[lv]g|mfg"
    r"|(?:mit )?(?:freundlichen|viele|beste) grü(?:ß|ss)en?"
    r"|merci|cordialement|gracias|saludos|grazie)\b[^?\n]{0,40}|--[ ]?)$"
)

# Some lines at the end that no sentence ends: a name, a telephone number.
_NAME: Final = r"[^\n?!]{0,39}[^\n?!.\s]"
_SIGNATURE: Final = re.compile(rf"\n[ \t]*\n(?:{_NAME}[ \t]*\n+){{0,3}}{_NAME}$")
_ANNOUNCES: Final = re.compile(
    r"(?i)\b(?:tell|following|questions?|know|answer|ask|help|frage|folgende[sn]?|pregunta|domanda"
    r"|soru)\b"
)

# ... and what a sentence begins with.
_GREETING: Final = (
    r"(?:hello|hi|hey|dear \w+|good (?:morning|afternoon|evening|day)|hallo|guten "
    r"(?:tag|morgen|abend)|bonjour|hola|ciao|merhaba)(?: (?:there|all|everyone|team|zusammen))?"
)
_HELLO: Final = re.compile(
    rf"(?i)^(?:(?:(?:{_GREETING}|please|excuse me)[,!]|(?:(?:hey|hi) )?@[\w.]+[,:]?|q\."
    r"|sorry to (?:bother|disturb) you,? but) +)+"
    r"(?=\w+ \w+ \w)"
)
_OPENING: Final = re.compile(
    rf"(?i)^(?:{_GREETING}[,!.]? +)?¿?(?:(?:please|bitte)[ ,]+)?(?:"
    r"(?:could|can|would|will) you (?:(?:please|kindly|maybe|possibly) )*"
    r"(?:tell|let) (?:me|us)(?: know)?"
    r"|(?:i|we)(?: was|['’]m| am)? (?:just )?wonder(?:ing)?"
    r"|(?:i|we)(?:['’]d| would) (?:really )?like to know|do you (?:happen to )?know"
    r"|(?:please )?tell (?:me|us)"
    r"|(?:(?:können|könnten) sie|kannst du) (?:mir |uns )?(?:bitte )?sagen"
    r"|(?:ich (?:würde|möchte)|wir (?:würden|möchten)) gerne? wissen"
    r"|(?:wissen sie|weißt du)(?: vielleicht| zufällig)?"
    r"|(?:pourriez-vous|pouvez-vous|peux-tu) (?:me|nous) dire|(?:podrías|puedes|podría) decirme"
    r"|(?:potresti|puoi|potrebbe) dirmi"
    r")(?:,? if you (?:can|know))?,? +(?=(?:what|who|whom|whose|when|where|which|why|how|if|"
    r"whether|was|wer|wen|wem|wann|wo|welche\w*|warum|wie|wieso|ob|qu\w+|où|comment|combien|"
    r"pourquoi|cuánd?\w*|cómo|dónde|che|chi|dove|come|perché)\b)"
)

# A sentence that asks itself announces nothing: "What is the query language: SQL?"
_INTERROGATIVE: Final = re.compile(
    r"(?i)(?:what|who|whom|whose|when|where|which|why|how|is|are|does|do|can|was|wer|wann|wo|wie|"
    r"warum|welche\w*|qué|quién|cómo|cuál|que|quel\w*|qui|comment|che|chi|come)\b"
)


def question_in(message: str) -> str:
    """Return the question that a message asks, word for word; all of it where none is found.

    It is what stands in a tag such as `<question>`, in the field of an object, or behind a label
    such as "Question:"; in a long text the last sentence that asks, if that can stand alone; and
    else the text without politeness and instructions on how to answer.
    """
    text = message.strip()
    if len(text) > 2 * _END:
        text = f"{text[:_END]}\n\n{text[-_END:]}"
    if turn := _turn(text):
        return question_in(turn)
    found = _object(text) or _tagged(text) or _field(text) or _labelled(text) or _asked(text)
    return found or message


def refines(message: str) -> bool:
    """Whether a message asks nothing but a better answer to the question before it."""
    text = message if len(message) <= 2 * _END else f"{message[:_END]}\n\n{message[-_END:]}"
    return _REFINES.search(text) is not None and not (
        _object(text) or _tagged(text) or _field(text) or _labelled(text)
    )


def told_in(question: str) -> tuple[str, str]:
    """What a text tells around the one question that it asks, and that; nothing if it is short."""
    asking = asking_in(question)
    if len(asking) != 1:
        return "", question
    told = " ".join(piece for piece in _pieces(question) if piece not in asking)
    return (told, asking[0]) if len(told) >= _TOLD else ("", question)


def asking_in(text: str) -> Sequence[str]:
    """The sentences of a text that ask."""
    return [piece for piece in _pieces(text) if _ASKS.search(piece)]


def _object(text: str) -> str:
    """Return the question of a JSON object, or of the last message that it has."""
    try:
        found = json.loads(text) if text[:1] == "{" else {}
    except (ValueError, RecursionError):
        return ""
    messages = found.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        found = messages[-1]
    named = [found.get(name) for name in _FIELDS]
    asking = [one for one in found.values() if isinstance(one, str) and _ASKS.search(one)]
    return next((one for one in (*named, *asking) if isinstance(one, str)), "").strip()


def _turn(text: str) -> str:
    ends = [*_TURN_ENDS.finditer(text)]
    last = ends[-1].start() if ends else 0
    begins = [match.end() for match in _TURN_BEGINS.finditer(text, 0, last)]
    if begins and (_BEFORE_TURNS.match(text) or ends[-1].end() == len(text)):
        end = next(match.start() for match in ends if match.start() >= begins[-1])
        return _SYSTEM.sub("", text[begins[-1] : end]).strip()
    return ""


def _tagged(text: str) -> str:
    for tag in reversed([*_TAG.finditer(text)][-3:]):
        end = text.find(f"</{tag[1]}>", tag.end())
        if end > 0 and (found := text[tag.end() : end].strip()):
            return _asked(found) or found
    return ""


def _field(text: str) -> str:
    fields = [*_FIELD.finditer(text)] if len(text) > _TYPED // 2 else []
    for field in reversed(fields):
        try:
            return str(json.loads(field[1])).strip()
        except ValueError:  # an escape that is none
            continue
    return ""


def _labelled(text: str) -> str:
    """Return what stands behind the last label; before the material, if that comes last."""
    labels = [match.end() for match in _LABEL.finditer(text) if not _asks_itself(match[0])]
    materials = [match.start() for match in _MATERIAL.finditer(text)]
    if len(materials) == 1:  # with more, these are examples; and material may hold labels, too
        before = [end for end in labels if end <= materials[0]]
        labels = [*labels, *before] if any(_behind(text, end) for end in before) else labels
    leads = [
        match.end()
        for match in _LEAD.finditer(text)
        if not _asks_itself(_PIECE.split(text[max(0, match.start() - _TYPED) : match.start()])[-1])
    ]
    for end in (*reversed(labels), *reversed(leads)):
        if found := _behind(text, end):
            return _asked(found) or found
    return ""


def _asks_itself(sentence: str) -> bool:
    return _INTERROGATIVE.match(sentence) is not None


def _behind(text: str, start: int) -> str:
    """Return the question that begins at a place, or after white space there; empty for none."""
    end = _END_OF_QUESTION.search(text, start)
    behind = text[start : end.start() if end else len(text)].strip(" \t\n\"'*")
    paragraphs = re.split(r"\n[ \t]*\n", behind)
    # A label above several paragraphs: as far as the first that asks.
    asks = (n for n, one in enumerate(paragraphs, start=1) if _ASKS.search(one.strip()))
    found = "\n\n".join(paragraphs[: next(asks, 1)]).strip(" \t\n\"'*")
    return found if any(map(str.isalpha, found)) else ""


def _asked(text: str) -> str:
    """Return what a text without labels asks; empty where that is all of it, or cannot be told."""
    is_long = len(text) > _TYPED
    bare = _BESIDE.sub("\n", _CODE.sub("\n", text) if is_long else text)
    bare = _unsigned(bare)
    pieces = [piece for line in bare.split("\n") for piece in _spoken(line)]
    asking = [n for n, piece in enumerate(pieces) if _ASKS.search(piece)]
    if is_long and len(pieces) > 1:
        found = pieces[asking[-1]] if asking else pieces[-1] if "```" in text else ""
        return found if _stands_alone(found) else ""
    kept = [
        _HELLO.sub("", _OPENING.sub("", piece))
        for n, piece in enumerate(pieces)
        if not (_MANNERS.match(piece.lstrip("#*- ")) and n not in asking)
        and not (
            n + 1 in asking
            and piece[-1] in ":："
            and _ANNOUNCES.search(piece)
            and not _asks_itself(piece)
        )
    ]
    found = " ".join(kept)
    return found if found != " ".join(_pieces(text)) else ""


def _unsigned(text: str) -> str:
    """Return a text without its closing, and the signature that comes after it."""
    end = len(text)
    for match in reversed([*_CLOSING.finditer(text)]):
        if asking_in(text[match.end() : end]) or not text[: match.start()].strip():
            break
        end = match.start()
    bare = text[:end].rstrip()
    signature = _SIGNATURE.search(bare)
    return bare[: signature.start()] if signature and asking_in(bare[: signature.start()]) else bare


def _spoken(line: str) -> Sequence[str]:
    """Return the sentences of a line; none of a rule for the answer with an example behind it."""
    pieces = [*_pieces(line)]
    is_rule = len(pieces) > 1 and ":" in pieces[0] and _MANNERS.match(pieces[0])
    return [] if is_rule and not any(map(_ASKS.search, pieces)) else pieces


def _pieces(text: str) -> Iterator[str]:
    return (piece.strip() for piece in _PIECE.split(text) if piece.strip())


def _stands_alone(question: str) -> bool:
    return len(query_terms(question).terms) >= _ALONE and not points_back(question)
