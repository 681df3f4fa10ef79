"""What kind of message was sent: small talk, or a question for a person, a time or a number."""

# Letters of many scripts look alike, and lists of words read best as words.
# ruff: noqa: RUF001, SIM905

import re
from typing import Final, Literal

Kind = Literal["who", "when", "how many", "how to", "contact", "definition", "why"]

SmallTalk = Literal["greeting", "thanks", "farewell", "introduction"]

_KINDS: Final[dict[str, dict[Kind, str]]] = {
    "de": {
        "who": "wer|wen|wem|wessen",
        "when": "wann|in welchem jahr|seit wann",
        "how many": "wie ?viele?|wie lange|wie hoch|wie groß|wie alt|wie weit",
        "definition": r"^was (?:ist|sind)(?: eine?| der| die| das)?(?: [^\s]+){1,3}$",
        "how to": "wie",
    },
    "en": {
        "contact": "phone number|telephone|(?:which|what) extension|e-?mail address",
        "when": r"^(?:\w+ )?when|when$"
        "|(?:what|which) (?:year|month|day|date|decade|century|time)s?",
        "why": "why|for what reason|what(?: is| was|'s) the reason",
        "how many": "how (?:many|much|long|often|old|far|tall|high|large|big|fast|deep|wide)"
        "|what (?:percentage|percent|number|proportion|amount|price|fee|rate|temperature)"
        "|what (?:do|does|did|will|would) .+ (?:cost|charge|pay|earn|weigh)",
        "who": r"^(?:\w+ )?who|who$|whom|whose"
        "|(?:what|which) (?:person|president|king|queen|author|emperor)",
        "definition": r"^what(?: is|'s|’s| are)(?: meant by)?(?: an?| the)?(?: [^\s]+){1,3}$"
        r"|^what do(?:es)?(?: [^\s]+){1,4} mean$|^define\b.*",
        "how to": "how (?:do|can|could|should|would|to|must|may)"
        "|(?:which|what) (?:command|option|flag|switch|setting|parameter|argument)"
        "|(?:is|are) there (?:a|any) (?:way|option|setting|command)"
        "|what (?:do|should|must|can) (?:i|we|you)(?: have| need)?(?: to)? (?:set|type|run|write)",
    },
    "es": {
        "who": "quién(?:es)?",
        "when": "cuándo|en qué (?:año|fecha|mes|día)",
        "how many": "cuánt[oa]s?",
        "how to": "cómo",
    },
    "fr": {
        "when": "quand|en quelle année|à quelle date",
        "how many": "combien",
        "who": "^qui|par qui",
        "how to": "comment",
    },
    "it": {
        "when": "quando|in (?:che|quale) anno",
        "how many": "quant[oaie]",
        "who": "^chi|da chi",
        "how to": "^come",
    },
    "pt": {
        "who": "quem",
        "when": "quando|em que ano",
        "how many": "quant[oa]s?",
        "how to": "^como",
    },
    "ru": {
        "who": "кто|кого|кому|кем",
        "when": "когда|в каком году",
        "how many": "сколько",
        "how to": "^как",
    },
    "tr": {
        "who": "kim[a-zçğıöşü]*",
        "when": "ne zaman|hangi yıl(?:da)?|(?:saat )?kaçta",
        "how many": "kaç[a-zçğıöşü]*",
        "how to": "nasıl",
    },
    "zh": {
        "who": "谁|誰|哪位",
        "when": "什么时候|什麼時候|何时|何時|哪一?年|几月|哪天",
        "how many": "多少|几个|几次|多长|多大|多高",
        "how to": "怎么|怎麼|怎样|如何",
    },
}
_PATTERNS: Final = {
    language: [
        (kind, re.compile(pattern if language == "zh" else rf"(?<!\w)(?:{pattern})(?!\w)"))
        for kind, pattern in kinds.items()
    ]
    for language, kinds in _KINDS.items()
}

_THANKS: Final = frozenset(
    "thanks thank thx ty cheers ok okay great cool perfect nice awesome yes no danke merci gracias"
    " grazie obrigado obrigada tack спасибо teşekkürler dzięki dziękuję 谢谢 謝謝 谢谢你 ありがとう"
    " ありがとうございます 감사합니다 ขอบคุณ ขอบคุณครับ ขอบคุณค่ะ धन्यवाद شكرا תודה".split()
)
_FAREWELLS: Final = frozenset("bye goodbye tschüss adiós 再见 さようなら".split())
_GREETINGS: Final = frozenset(
    "hello hi hey hiya howdy greetings morning afternoon evening welcome hallo moin servus bonjour"
    " salut hola ciao olá hej привет здравствуйте merhaba cześć ahoj 你好 您好 こんにちは おはよう"
    " 안녕 안녕하세요 สวัสดี สวัสดีครับ สวัสดีค่ะ नमस्ते مرحبا שלום".split()
)
_SMALL_TALK_WORDS: Final = _THANKS | _FAREWELLS | _GREETINGS
_FILLING_WORDS: Final = frozenset(
    "a again all and bot day do everyone for friend good have help it lot much my of see"
    " so that the there to very well you your later soon schön sehr viel vielen guten tag"
    " abend buenos buenas días noches muchas beaucoup mille bon jour molte buon giorno"
    " muito большое".split()
)
_INTRODUCTIONS: Final = frozenset(
    {
        "what are you",
        "what can you do",
        "what do you do",
        "what is your name",
        "what s your name",
        "who are you",
        "wer bist du",
    }
)
_SMALL_TALK_SENTENCES: Final = _INTRODUCTIONS | frozenset(
    {
        "are you there",
        "good day",
        "good night",
        "guten abend",
        "guten tag",
        "how are you",
        "how are you doing",
        "how are you today",
        "how is it going",
        "how s it going",
        "nice to meet you",
        "see you",
        "see you later",
        "wie geht es dir",
        "wie geht s",
        "what s up",
    }
)
_GOES_ON: Final = re.compile(
    r"(?:and|or|but|what about|how about|und|oder|et|y|e|ve|peki)\s"
    r"(?!(?:who|what|when|where|why|how)\b)",
    re.IGNORECASE,
)
_POINTS_BACK: Final = re.compile(
    r"\b(?:it|they|them|this|these|those|he|she|him|her|es|sie|ihn|ihm|dies\w*|davon|damit|"
    r"cela|ça|eso|esto|ciò)\b|\bthat\W*$",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(
    r"(?:q|question|frage|pregunta|domanda|pergunta|вопрос|soru|问题|問題|問い|질문)\s*\d*\s*[:：]\s*",
    re.IGNORECASE,
)
_LEADING_VERBS: Final = re.compile(
    r"how (?:do|can|could|should) (?:i|we|you) (make sure|make|get|have|tell)(?= \w+ \w)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\s!-/:-@\[-`{-~‘’“”…。，！？、、～·¡¿]+")

# Nobody greets in more words than this.
_MAX_SMALL_TALK: Final = 8


def bare_question(text: str) -> str:
    """A question without what says nothing about its subject.

    That is a label in front, such as "Q:", the quotes around it, and verbs that only lead to what
    somebody wants done: "How do I get the bot to …", "How can I make sure that …".
    """
    text = _LABEL.sub("", text.strip()).strip("\"'“”„«» ") or text
    led = _LEADING_VERBS.match(text)
    return text[: led.start(1)] + text[led.end(1) :] if led else text


def question_kind(question: str, language: str) -> Kind | None:
    """Return what the answer must have, if the question shows it.

    Args:
        question: as it was asked.
        language: its language; the kinds of some are known.
    """
    question = question.casefold().rstrip("?!. ")
    found = (
        (match.start(), kind)
        for kind, pattern in _PATTERNS.get(language, ())
        if (match := pattern.search(question))
    )
    return min(found, key=lambda one: one[0], default=(0, None))[1]


def goes_on(question: str) -> bool:
    """Whether a question only names another subject for what was asked before it."""
    return _GOES_ON.match(question.strip()) is not None


def points_back(question: str) -> bool:
    """Whether a question goes on from what was said before it, or speaks of that as "it"."""
    return goes_on(question) or _POINTS_BACK.search(question) is not None


def small_talk(text: str) -> SmallTalk | None:
    """What kind of small talk a message is; None where it may ask something about the sources.

    The single common words of small talk would be found in some source or other, and answered from
    there.
    """
    # A face or a thumb is no word.
    words = [word for word in _WORD.findall(text.casefold()) if any(map(str.isalnum, word))]
    if len(words) > _MAX_SMALL_TALK:
        return None
    sentence = " ".join(words)
    if sentence in _INTRODUCTIONS:
        return "introduction"
    if not words or sentence in _SMALL_TALK_SENTENCES:
        return "farewell" if sentence.startswith("see you") else "greeting"
    vocabulary = _SMALL_TALK_WORDS | _FILLING_WORDS
    if not vocabulary.issuperset(words) or _SMALL_TALK_WORDS.isdisjoint(words):
        return None
    if not _THANKS.isdisjoint(words):
        return "thanks"
    return "farewell" if not _FAREWELLS.isdisjoint(words) else "greeting"
