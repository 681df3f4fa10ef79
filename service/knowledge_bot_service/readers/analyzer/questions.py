"""What kind of message was sent: small talk, or a question that goes on from another one."""

# Letters of many scripts look alike, and lists of words read best as words.
# ruff: noqa: RUF001, SIM905

import re
from typing import Final, Literal

SmallTalk = Literal["greeting", "thanks", "farewell", "introduction"]

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
# What a question begins with that goes on from the one before it, ...
_GOES_ON: Final = re.compile(
    r"(?:(?:and|or|but|what about|how about|und|oder|et|y|e|ve|peki|és|entä|а|и)\s"
    r"(?!(?:who|what|when|where|why|how)\b)|a (?:co|dla|jak|kde|kdy|na|pro|v|w)\s"
    r"|那|那么|では|じゃあ|그럼|그러면|แล้ว)",
    re.IGNORECASE,
)
# ... and where it has no verb: "Until what age?", "For children?"
_IS_PART: Final = re.compile(
    r"(?:about|after|at|before|by|during|for|from|in|on|since|to|under|until|till|with|without"
    r"|ab|auf|aus|bei|bis|für|gegen|im|mit|nach|ohne|seit|um|unter|von|vor|wegen|zu[mr]?"
    r"|avec|depuis|jusqu|para|pour|sans|con|desde|hasta|fino|per)\W+(?:\w+\W+){0,2}\w+\W*",
    re.IGNORECASE,
)

# The words of each language that stand for what was said before.
_POINTING: Final = {
    "en": r"its?|they|their|them|he|she|him|her|his|these|those|ones|(?:which|other|the \w+) one"
    r"|this(?! (?:spring|summer|autumn|fall|winter|year|month|week|morning|afternoon|evening)\b)"
    r"|(?:about|can|did|does|for|is|of|was|will|with) that|that(?=\W*$)"
    r"|(?<!\bare )(?<!\bis )(?<!\bwas )(?<!\bwere )there(?=\W*$)",
    "de": r"ihn|ihm|(?-i:sie|ihre?[mnrs]?)|dies\w*(?! (?:Jahr|Monat|Woche)\b)|das(?=\W*$)|dort"
    r"|da(?:bei|durch|für|mit|nach|von|zu|r(?:an|auf|aus|in|über|unter))"
    r"|(?:beginnt|darf|dauert|fährt|findet|gehört|gilt|hat|heißt|ist|kann|kostet|liegt|muss|wird)"
    r" (?:er|es)",
    "fr": r"cela|ça",
    "es": r"eso|esto",
    "it": r"ciò",
}
_POINTS_BACK: Final = re.compile(
    rf"\b(?:{'|'.join(_POINTING.values())})\b|[它他她]|[呢](?=\W*$)|それ|その|그것|มัน|ล่ะ",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\s!-/:-@\[-`{-~‘’“”…。，！？、、～·¡¿]+")

# Nobody greets in more words than this.
_MAX_SMALL_TALK: Final = 8


def points_back(question: str) -> bool:
    """Whether a question goes on from what was said before it, or speaks of that as "it"."""
    asked = question.strip()
    return bool(_GOES_ON.match(asked) or _IS_PART.fullmatch(asked) or _POINTS_BACK.search(question))


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
