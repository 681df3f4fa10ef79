"""What is known about languages: their function words, question words and stemmers.

The lists serve two ends: distinguishing languages of one script (function words are in every
sentence), and taking words out of a question that say nothing about its subject.
"""

# Letters of many scripts look alike, and lists of words read best as words.
# ruff: noqa: RUF001, SIM905

import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

DEFAULT: Final = "en"

# Stemmers by language. A language without one (Vietnamese, Hebrew, …) is indexed word by word.
STEMMERS: Final = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}

# Scripts by the first code point, the last one, and the language that a word in it is taken for.
# Latin is not here: its languages are recognised by their function words.
_SCRIPTS: Final = (
    (0x0370, 0x03FF, "el"),
    (0x0400, 0x052F, "ru"),
    (0x0531, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x06FF, "ar"),
    (0x0750, 0x077F, "ar"),
    (0x0900, 0x097F, "hi"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0E00, 0x0E7F, "th"),
    (0x0E80, 0x0EFF, "lo"),
    (0x1000, 0x109F, "my"),
    (0x1100, 0x11FF, "ko"),
    (0x1780, 0x17FF, "km"),
    (0x1F00, 0x1FFF, "el"),
    (0x3005, 0x3007, "zh"),
    (0x3040, 0x30FF, "ja"),
    (0x31F0, 0x31FF, "ja"),
    (0x3400, 0x4DBF, "zh"),
    (0x4E00, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"),
    (0xF900, 0xFAFF, "zh"),
    (0x20000, 0x323AF, "zh"),
)

# Languages that are indexed by pairs of characters: those written without spaces, and Korean, whose
# particles are part of the word.
IN_PAIRS: Final = frozenset({"ja", "km", "ko", "lo", "my", "th", "zh"})

PAIRED_CHARACTERS: Final = "".join(
    f"{chr(first)}-{chr(last)}" for first, last, language in _SCRIPTS if language in IN_PAIRS
)

# The words of a question that ask, and are no part of its subject.
_QUESTION_WORDS: Final = {
    "cs": "kdo co kdy kde kam proč jak který která které kolik čí",
    "da": "hvem hvad hvornår hvor hvorfor hvordan hvilken hvilket hvilke mange",
    "de": "wer wen wem wessen was wann wo wohin woher warum wieso weshalb wie welche welcher"
    " welches welchen welchem viel viele vielen lange oft hoch heißt hieß hießen nennt nannte"
    " nennen genannt bezeichnet gibt gab liegt laut art arten name namen anzahl prozentsatz"
    " wofür wozu wovon worauf woran worin wodurch womit woraus wonach wobei worüber wogegen"
    " ungefähr sollte sollten soll sollen müssen muss konnte konnten werde neben damit",
    "en": "who whom whose what when where which why how many much long often does did do done"
    " called name named kind type",
    "es": "quién quiénes qué cuál cuáles cuándo dónde adónde cómo cuánto cuánta cuántos cuántas"
    " porqué",
    "fi": "kuka ketkä mikä mitä mitkä milloin koska missä mihin mistä miksi miten kuinka moni"
    " monta paljon kenen",
    "fr": "qui que quoi quel quelle quels quelles quand où comment pourquoi combien est-ce",
    "hu": "ki kik mi mit mikor hol hová miért hogyan melyik milyen mennyi hány",
    "id": "siapa siapakah apa apakah kapan dimana mana kemana mengapa kenapa bagaimana berapa",
    "it": "chi che cosa quale quali quando dove come perché quanto quanta quanti quante",
    "nl": "wie wat wanneer waar waarom hoe welke welk hoeveel wiens",
    "no": "hvem hva når hvor hvorfor hvordan hvilken hvilket hvilke mange",
    "pl": "kto co kiedy gdzie dokąd dlaczego jak jaki jaka jakie który która które ile czyj czy",
    "pt": "quem que qual quais quando onde como porquê quanto quanta quantos quantas",
    "ro": "cine ce când unde cum care cât câtă câți câte cui căruia cărei căror",
    "sv": "vem vad när var vart varför hur vilken vilket vilka många mycket",
    "vi": "ai gì nào đâu sao khi mấy bao nhiêu thế",
    "ar": "من ما ماذا متى أين اين لماذا كيف أي اي أية كم هل لمن بماذا",
    "el": "ποιος ποια ποιο ποιοι ποιες ποιον ποιαν ποιου ποιας ποιων τι πότε πού γιατί πώς πόσο"
    " πόσος πόση πόσοι πόσες πόσα",
    "he": "מי מה מתי איפה היכן למה מדוע איך כיצד איזה איזו אילו כמה האם",
    "hi": "कौन किस किसने किसे किसका किसकी किसके किन क्या कब कहाँ कहां क्यों कैसे कैसा कितना"
    " कितने कितनी कौनसा कौनसी",
    "ru": "кто кого кому кем что чего чем когда где куда откуда почему зачем как какой какая"
    " какое какие какого каком какую каким каких который которая сколько чей чья ли",
}

# Of languages that are level the first here counts: Catalan and Estonian after those that a text
# without words of their own is likelier to be in.
_FUNCTION_WORDS: Final = {
    "en": "a an the and or but not no nor of to in on at by for from with without into onto"
    " about as is are was were be been being am has have had having it its he she they"
    " them their his her hers him i me my we us our you your this that these those there"
    " here then than so such if will would can could should shall may might must also only"
    " very just between after before during over under through while because until upon"
    " each other some any all both more most s t don didn doesn isn wasn ll ve re",
    "cs": "a i v ve na do z ze s se si je jsou byl byla bylo byly být že to ten ta tento tato"
    " pro po od k ke u o za ale nebo jako které který která jeho její jejich by však při"
    " také až není",
    "da": "og i at er en et den det de til på af for med som var fra ikke har han hun blev kan"
    " vil skal om over efter også men eller ved under deres sin da der være været",
    "de": "der die das den dem des ein eine einen einem einer eines und oder aber nicht kein"
    " keine ist sind war waren wird wurde wurden werden hat haben hatte sein seine seiner"
    " ihr ihre ihrer von vom zu zum zur in im an am auf aus bei beim mit nach für durch um"
    " als auch es er sie wir ich man sich dass daß wenn so nur noch über unter vor"
    " zwischen gegen diese dieser dieses einige kann können bis seit während",
    "es": "el la los las un una unos unas y e o u pero no de del al a en con por para sin sobre"
    " entre hasta desde es son era eran fue fueron ser está están ha han había que se su"
    " sus lo le les como más este esta estos estas ese esa también muy ya si me mi tu nos"
    " cuando durante",
    "fi": "ja on oli ovat ei että se hän ne he tai myös sekä kun kuin mutta joka jotka ole olla"
    " ollut tämä tämän sen hänen niiden mukaan jälkeen vain olen olet olemme olette olisi"
    " olisit olisin olisimme olisitte olisivat olit olin olimme olitte olivat olleet en et"
    " emme ette eivät minä minun minut minua minussa minusta minuun minulla minulta minulle"
    " sinä sinun sinut sinua sinussa sinusta sinuun sinulla sinulta sinulle hänet häntä"
    " hänessä hänestä häneen hänellä häneltä hänelle me meidän meidät meitä meissä meistä"
    " meihin meillä meiltä meille te teidän teidät teitä teissä teistä teihin teillä teiltä"
    " teille heidän heidät heitä heissä heistä heihin heillä heiltä heille tätä tässä tästä"
    " tähän tällä tältä tälle tänä täksi tuo tuon tuota tuossa tuosta tuohon tuolla tuolta"
    " tuolle tuona tuoksi sitä siinä siitä siihen sillä siltä sille siksi nämä näiden näitä"
    " näissä näistä näihin näillä näiltä näille näinä näiksi nuo noiden noita noissa noista"
    " noihin noilla noilta noille noina noiksi niitä niissä niistä niihin niillä niiltä"
    " niille niinä niiksi jonka jota jossa josta johon jolla jolta jolle jona joksi joiden"
    " joita joissa joista joihin joilla joilta joille joina joiksi jos koska niin vaan vai"
    " vaikka kanssa noin poikki yli nyt itse",
    "fr": "le la les l un une des du de d et ou mais ne n pas ni à au aux en dans par pour avec"
    " sans sur sous entre est sont était étaient fut être été a ont avait il elle ils"
    " elles on nous vous je tu se s ce c cet cette ces son sa ses leur leurs plus qu y"
    " comme aussi très si dont après avant depuis lors t-il",
    "hu": "a az és egy hogy nem is van volt meg ez azt el de csak vagy mint már még lesz voltak"
    " után által amely amelyek között szerint",
    "id": "yang dan di ke dari untuk pada dengan adalah itu ini dalam tidak oleh sebagai juga"
    " akan atau telah karena ada mereka dapat bisa kami kita saya anda para sebuah seorang",
    "it": "il lo la i gli le un uno una e ed o ma non di del dello della dei degli delle a al"
    " allo alla ai agli alle da dal dalla in nel nella nei nelle con su sul sulla per tra"
    " fra è sono era erano fu furono essere stato stata ha hanno aveva si ci ne suo sua"
    " suoi sue loro questo questa questi queste più anche come dopo prima",
    "lt": "ir yra buvo kad su iš į ne tai kaip bet už per apie nuo iki jis ji jie ar taip pat",
    "nl": "de het een en of maar niet geen van in op aan bij met voor door uit over naar tot om"
    " te is zijn was waren wordt werd werden worden heeft hebben had hij zij ze wij we ik"
    " je u er die dat dit deze ook als dan nog al meer zich hun haar tussen tegen onder",
    "no": "og i at er en et den det de til på av for med som var fra ikke har han hun ble kan"
    " vil skal om over etter også men eller ved under deres sin da der være vært",
    "pl": "i a w we na do z ze się nie jest są był była było były być to ten ta te tego tej że"
    " dla po od o za przez przy jako ale lub oraz jego jej ich może ma tym także pod nad"
    " między",
    "pt": "o a os as um uma uns umas e ou mas não de do da dos das em no na nos nas por pelo"
    " pela para com sem sobre entre até é são era eram foi foram ser está estão tem têm"
    " tinha se seu sua seus suas ao aos à às mais como também este esta esse essa isso lhe"
    " muito já",
    "ro": "și în la de din pe cu pentru prin sau dar nu este sunt era erau fost fi a al ai ale"
    " au avea un o unui unei lui ei lor se că să mai cel cea cei cele acest această după"
    " între fără până ca iar l s",
    "sv": "och i att är en ett den det de till på av för med som var från inte har han hon blev"
    " kan ska skall om över efter också men eller vid under deras sin då där vara varit",
    "tr": "ve bir bu da de için ile olarak olan olduğu oldu en daha çok gibi kadar sonra ancak"
    " veya ama değil her o ise idi tarafından göre var yok hem ya olup acaba aslında az bazı"
    " belki biri birkaç birşey biz çünkü defa diye eğer hep hepsi hiç kez ki mı mu mü sanki"
    " şey siz şu tüm yani",
    "vi": "là và của các những một được có cho trong không với từ này đã để người khi đến cũng"
    " ở như vào ra trên đó về theo tại do bởi nhưng hay hoặc thì mà sẽ việc",
    "ar": "في على إلى الى عن مع أن ان إن التي الذي الذين هذا هذه ذلك تلك هو هي هم كان كانت يكون"
    " قد لا لم لن و أو او ثم بين بعد قبل كل عند حتى منذ تم كما",
    "el": "ο η το οι τα του της των τον την τους τις ένα ένας μια μία και ή αλλά δεν μη να θα"
    " που πως ότι σε στο στη στην στον στα στους στις στου από για με χωρίς κατά μετά πριν"
    " είναι ήταν έχει έχουν είχε αυτό αυτή αυτός ως αν όταν",
    "he": "של על את עם אל לא או גם כי זה זו זאת הוא היא הם הן היה היתה הייתה היו אבל רק כל יש"
    " אין אם עד בין לפני אחרי",
    "hi": "का की के को में से पर और या है हैं था थी थे हो होता होती होते गया गई गए किया किए ने"
    " यह वह ये वे इस उस इन उन एक भी नहीं तो जो कि लिए साथ द्वारा तक कर करने करता करती बाद"
    " अपने जा रहा",
    "ru": "и в во не на я он она оно они мы вы с со а то все но да ты к ко у же за бы по только"
    " его её ее их был была было были быть есть о об от из для до при над под это этот эта"
    " эти того тот так также или если после перед между время через ещё уже",
    "ca": "el la els les un una i o de del dels al als en amb per que és són no més com aquest"
    " aquesta ha han va ser seva seu també però des fins on molt entre sobre",
    "et": "ja ei on oli et see ta mis kes oma kui ka või aga ning olid olla tema nende selle"
    " pärast kuid",
}

# Languages in pairs have no word boundaries to look at: what asks or joins is cut out of the run.
_CUT_OUT: Final = {
    "zh": "什么时候 什麼時候 为什么 為什麼 什么 什麼 甚麼 哪一年 哪一个 哪些 哪里 哪裡 哪个"
    " 哪個 哪位 哪种 哪 谁 誰 多少 几个 多久 多长 几 怎么 怎麼 怎样 怎樣 如何 为何 為何"
    " 何时 何時 何处 何 是否 吗 嗎 呢 的 是 了 在 被 有 和 与 與 及 于 於 从 從 由 对 對"
    " 以 而 也 都 并 這 这 那 该 該 之 所 把 给 将 用 叫 请问 或 一个 个",
    "ja": "いつ どこ どの どれ どう どんな どちら だれ なぜ なに なん いくつ いくら 何年 何人"
    " 何 誰 ですか ますか でしたか ましたか です ます でした ました という として について"
    " によって における において された されて される している していた した して する"
    " から まで より など この その は が の を に で と も へ や か",
    "ko": "무엇 무슨 누구 언제 어디 어느 어떤 어떻게 얼마나 얼마 몇 왜 입니까 습니까 합니까"
    " 됩니까 인가요 나요 인가 했나 였나 까 있는 있다 하는 했던 되는 된 대한 위한",
    "th": "เมื่อไหร่ เมื่อไร เมื่อใด ที่ไหน ที่ใด เท่าไหร่ เท่าไร เท่าใด อย่างไร ยังไง หรือไม่"
    " อะไร ใคร ทำไม ไหน ใด กี่ ไหม ใช่ คือ เป็น ของ ที่ ใน และ ได้ มี จะ ให้ กับ จาก โดย"
    " ว่า ซึ่ง นี้ นั้น แห่ง ถูก ไว้ บ้าง แล้ว",
}

# Particles at the end of a Korean word.
_KOREAN_PARTICLE: Final = re.compile(
    "(?<=[가-힣]{2})(?:에서는|에서|으로|에게|까지|부터|은|는|이|가|을|를|의|에|로|와|과|도|만)(?![가-힣])"
)


def _turkish_question_words() -> str:
    """Turkish question words with their endings: of cases, plurals, the copula and the past."""
    vowels = "aıoueiöü"
    # The vowel of an ending by the last one of the stem.
    closed = dict(zip(vowels, "ııuuiiüü", strict=True))
    stems = (
        "kim kime kimi kimin kiminle kimde kimden ne neye neyi neyin neyle nede neden nere nereye"
        " nereyi nerenin nerede nereden neresi neresinde neresine nasıl niçin niye hangi hangisi"
        " hangisinde hangisine hangisini kaç kaçıncı kaça kaçta kaçı kaçında kaçınca"
    ).split()
    forms = set(stems) | {"miydi mıydı muydu müydü midir mıdır mudur müdür mi mı mu mü", "ne zaman"}
    for stem in stems:
        last = next(letter for letter in reversed(stem) if letter in vowels)
        plural = stem + ("ler" if last in "eiöü" else "lar")
        for word in (stem, plural, f"{stem}si", f"{plural}i", f"{plural}ı"):
            vowel = closed[next(letter for letter in reversed(word) if letter in vowels)]
            is_hard = word[-1] in "çfhkpsşt"
            link = "y" if word[-1] in vowels else ""
            forms |= {
                word,
                f"{word}{'t' if is_hard else 'd'}{vowel}r",
                f"{word}{link or ''}{'t' if is_hard else 'd'}{vowel}",
                f"{word}{link}m{vowel}ş",
            }
    return " ".join(forms)


def _words(table: dict[str, str]) -> dict[str, frozenset[str]]:
    return {language: frozenset(words.casefold().split()) for language, words in table.items()}


_QUESTION: Final = _words({**_QUESTION_WORDS, "tr": _turkish_question_words()})
_FUNCTION: Final = _words(_FUNCTION_WORDS)

_LANGUAGES_OF: Final[dict[str, list[str]]] = {}
for _language, _function_words in _FUNCTION.items():
    for _word in _function_words | _QUESTION.get(_language, frozenset()):
        _LANGUAGES_OF.setdefault(_word, []).append(_language)

# A word with such a letter is as telling as a function word: short notes have few of these.
_LETTERS: Final = {
    letter: [language]
    for language, letters in {
        "cs": "ěřů",
        "de": "ß",
        "es": "ñ",
        "hu": "őű",
        "pl": "ąęłż",
        "pt": "ãõ",
        "ro": "ășț",
        "tr": "ğış",
        "vi": "đơư",
    }.items()
    for letter in letters
}

# What was told of so many words and characters is remembered.
_REMEMBERED: Final = 10_000

_CUTS: Final = {
    language: re.compile("|".join(sorted(words.split(), key=len, reverse=True)))
    for language, words in _CUT_OUT.items()
}


@functools.lru_cache(maxsize=_REMEMBERED)
def script_language(word: str) -> str | None:
    """The language that a word's script stands for; None for Latin script and for digits."""
    point = ord(word[0])
    if point < _SCRIPTS[0][0]:
        return None
    return next((language for first, last, language in _SCRIPTS if first <= point <= last), None)


def latin_languages(words: Iterable[str]) -> list[str]:
    """The languages in Latin script that the words may be in, the likeliest first.

    Args:
        words: casefolded words of a text.

    Returns:
        The language with most words that tell it among `words`, and those that have as many; empty
        when no word tells anything.
    """
    counts = Counter(chain.from_iterable(map(_told_by, words)))
    most = max(counts.values(), default=0)
    return [language for language in _FUNCTION if counts and counts[language] == most]


@functools.lru_cache(maxsize=_REMEMBERED)
def _told_by(word: str) -> Sequence[str]:
    """The languages that a word speaks for."""
    if known := _LANGUAGES_OF.get(word):
        return known
    return next((_LETTERS[letter] for letter in word if letter in _LETTERS), ())


def main_language(words: Iterable[str]) -> str:
    """The language of a text, as an ISO 639-1 code; `DEFAULT` if it is not recognised.

    Args:
        words: casefolded words of the text.
    """
    words = list(words)
    scripts = Counter(map(script_language, chain.from_iterable(words)))
    if "ja" in scripts and "zh" in scripts:
        scripts["ja"] += scripts.pop("zh")
    script = scripts.most_common(1)[0][0] if scripts else None
    return script or next(iter(latin_languages(words)), DEFAULT)


@functools.lru_cache(maxsize=_REMEMBERED)
def is_stop_word(word: str, language: str) -> bool:
    """Whether a casefolded word says nothing about the subject of a question in `language`."""
    return word in _FUNCTION.get(language, ()) or word in _QUESTION.get(language, ())


def without_function_parts(run: str, language: str) -> str:
    """A run of a language that is indexed in pairs, with spaces where words asked or joined."""
    if language == "ko":
        run = _KOREAN_PARTICLE.sub(" ", run)
    cut = _CUTS.get(language)
    return cut.sub(" ", run) if cut else run
