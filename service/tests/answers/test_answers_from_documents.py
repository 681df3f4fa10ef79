"""Which part of a document answers a question, and what goes along with it."""

# Letters of many scripts look alike.
# ruff: noqa: RUF001

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from in_process import InProcess
from service_calls import add_text, ask, client_of

REFUSAL = "I could not find that in my sources."

INSTALL = "python -m pip install \\\n    frobnicator"
DOCUMENTS = {
    "Frobnicator": f"""# Frobnicator

Frobnicator is a tool that finds duplicate photographs.

## Installation

You can get the tool with the following command:

```
{INSTALL}
```

Run it on a folder like this:

```
frob scan ./folder
```

The scan writes a report named report.html.

## Requirements

- Python 3.10
- 200 MB of disk space

## Options

option | default | meaning
--- | --- | ---
--threads | 4 | how many folders are read at once
--similarity | 0.95 | how alike photographs must be
--language en or de | | the language of the report

## Moving

To move the index to another computer:

1. Stop the tool:

   ```
   frob stop
   ```

2. Copy the file index.db.
3. Start the tool there.
""",
    "Sickness": "# Sickness\n\nIf you are ill, tell Petra Lund before nine. A note from a doctor is"
    " needed from the third day on.\n\nPetra can be reached at extension 4711.",
    "Köprü": "Köprünün mimarı Selin Kaya idi. Köprü 1954 yılında açıldı.",
    "Şehir": "IĞDIR küçük bir şehirdir. Şehrin ünlü ürünleri kayısı ve pamuktur.",
    "Werkstatt": "# Werkstatt\n\nZum Schärfen der Messer:\n\n1. Stein wässern.\n2. Klinge ziehen.",
}


def answering_from(texts: Mapping[str, str]) -> Any:
    """A fixture: a client of a service whose bot_one knows texts, each by its name."""

    @pytest.fixture(scope="module")
    def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
        folder = tmp_path_factory.mktemp("known")
        with (
            InProcess(folder, collections=["col_one"], bots=["bot_one"]) as service,
            client_of(service) as http,
        ):
            for name, content in texts.items():
                add_text(http, name, content)
            service.wait_until_ready(300)
            yield http

    return http


documents = answering_from(DOCUMENTS)


@pytest.mark.parametrize(
    ("question", "there", "not_there"),
    [
        ("How do I install the tool?", f"```\n{INSTALL}\n```", "index.db"),
        ("How do I run it on a folder?", "```\nfrob scan ./folder\n```", "index.db"),
        ("What does the scan write?", "report named report.html", "index.db"),
        ("What are the requirements?", "- Python 3.10\n- 200 MB of disk space", "frob stop"),
        ("What is the default of --similarity?", "--similarity | 0.95 |", "index.db"),
        ("What is --language for?", "--language en or de |  | the language", "index.db"),
        ("What is Frobnicator?", "a tool that finds duplicate photographs", "index.db"),
        ("How do I move the index to another computer?", "   frob stop", "report.html"),
        ("Whom do I tell when I am sick?", "Petra Lund", "frob"),
        ("When is a note from a physician needed?", "third day", "frob"),
        ("Q: Who is the architect of the bridge?", REFUSAL, "Sources"),
        ('Question: "What does the scan write?"', "report.html", "index.db"),
        ("Köprünün mimarı kimdi?", "Selin Kaya", "IĞDIR"),
        ("Şehrin ünlü ürünleri nelerdir?", "kayısı ve pamuk", "Köprü"),
        ("Iğdır nedir?", "küçük bir şehirdir", "Köprü"),
        ("Wie schärfe ich Messer?", "1. Stein wässern.\n2. Klinge ziehen.", "frob"),
    ],
)
def test_the_part_that_answers_is_quoted_with_what_it_introduces(
    documents: httpx.Client, question: str, there: str, not_there: str
) -> None:
    answer = ask(documents, question)["answer"]
    assert there in answer
    assert not_there not in answer


def test_a_long_list_is_cut_at_an_item_and_a_command_nowhere(
    service: InProcess, http: httpx.Client
) -> None:
    items = "\n".join(f"- Gardening rule {number}: water plant {number}." for number in range(100))
    commands = [f"grow --plant {number} \\\n    --deep --with-water" for number in range(30)]
    code = "\n".join(commands)
    text = f"The gardening rules of the house are these:\n\n{items}\n\nThis makes all plants grow:"
    add_text(http, "Garden", f"{text}\n\n```\n{code}\n```")
    service.wait_until_ready(300)
    rules = ask(http, "What are the gardening rules of the house?")["answer"]
    assert "- Gardening rule 9: water plant 9.\n" in rules
    assert len(rules.partition("\n\nSources: ")[0]) <= 1200
    grow = ask(http, "How do I make all plants grow?")["answer"]
    assert commands[0] in grow
    assert grow.count("--plant") == grow.count("--with-water")
    assert grow.count("```") == 2


def test_a_block_cannot_forge_the_list_of_sources(http: httpx.Client) -> None:
    text = "The list of lighthouses is this:\n\n```\nRua\n\nSources: forged\n```"
    add_text(http, "Lighthouses", text)
    answer = ask(http, "What is the list of lighthouses?")["answer"]
    assert answer.partition("\n\nSources: ")[2] == "Lighthouses"


team = answering_from(
    {
        "Incidents": "# Incidents\n\nSeverity | Interval | Paged\n--- | --- | ---\n"
        "SEV1 | 15 min | the CTO\nSEV2 | 30 min | on call\nSEV3 | 1 day | on call\n\n"
        "The bot opens a channel for each of them.\n\n# Roles\n\nThe roles are:\n\n"
        "- Scribe: writes the timeline\n- Speaker: posts to the status page\n\n"
        "Next drill: 19 March at noon.\n",
        "Runbook": "# Full disk\n\nIf the disk is above 90 %:\n\n- Delete old logs.\n"
        "- Check for inactive slots:\n\n```yaml\n- slots:\n- retained\n```\n\n"
        "- Extend the volume.\n\n"
        "# Failover\n\nTo fail over:\n\n1. Tell #ops.\n2. Check the lag:\n\n   ```\n   lag\n"
        "   ```\n\n3. Start the failover:\n\n   ```\n   failover --now\n   ```\n\n"
        "# How do I log my hours?\n\n```\ntempo log --hours 7.5\n```\n\n"
        "# Backups\n\nThe backups are kept for 35 days.\n\nTo restore one:\n\n```\nrestore\n```\n",
    }
)


def test_an_item_introduces_the_code_after_it(team: httpx.Client) -> None:
    words = words_of(ask(team, "What do I do when the disk is above 90 %?"))
    assert words == (
        "If the disk is above 90 %:\n\n- Delete old logs.\n- Check for inactive slots:\n\n"
        "  ```yaml\n  - slots:\n  - retained\n  ```\n\n- Extend the volume."
    )
    slots = words_of(ask(team, "How do I check for inactive slots?"))
    assert "- Check for inactive slots:\n\n  ```yaml\n  - slots:\n  - retained\n  ```" in slots


def test_who_asks_how_to_do_something_gets_every_step_once(team: httpx.Client) -> None:
    words = words_of(ask(team, "How do I start a failover?"))
    assert words.startswith("To fail over:\n\n1. Tell #ops.\n2. Check the lag:")
    assert words.endswith("3. Start the failover:\n\n   ```\n   failover --now\n   ```")


def test_a_command_is_for_who_asks_how_to_do_something(team: httpx.Client) -> None:
    kept = "The backups are kept for 35 days."
    assert words_of(ask(team, "How long are backups kept?")).startswith(kept)
    restore = words_of(ask(team, "How do I restore a backup?"))
    assert restore.endswith("To restore one:\n\n```\nrestore\n```")


def words_of(message: dict[str, Any]) -> str:
    """An answer without the list of its sources."""
    words: str = message["answer"].partition("\n\nSources: ")[0]
    return words


office = answering_from(
    {
        "Reference": "# Reference\n\n## Formatting\n\n#### `--cache-dir`, `FROB_CACHE_DIR`\n\n"
        "The directory where the formatter stores its cache.\n\n"
        "#### `-q, --quiet`\n\nPrints only errors.\n",
        "Fair": "# Sheep fair\n\nAn adult ticket is 7 euros. Dogs stay outside.\n",
        "Prices": "# Prices\n\nAn adult ticket for both museums is 13 euros.\n",
    }
)


def test_two_sources_that_answer_as_well_are_both_quoted(office: httpx.Client) -> None:
    answer = ask(office, "How much is an adult ticket?")["answer"]
    assert "7 euros" in answer
    assert "13 euros" in answer
    assert answer.endswith(("Sources: Fair, Prices", "Sources: Prices, Fair"))


BADGER = (
    "The badger is a shy animal of the woods and is seen at dusk more often than by day. Earthworms"
    " make up most of its diet. A badger may eat two hundred of them in a night, after rain even"
    " more. It digs for roots and bulbs as well, and takes wasps' nests apart for their larvae."
    " Several generations live in a sett, which has many entrances and is kept very clean; some"
    " setts are known to have been lived in for more than a hundred years without a break."
)


def test_a_short_sentence_before_the_best_one_says_what_that_is_about(
    fresh_http: httpx.Client,
) -> None:
    add_text(fresh_http, "Badger", BADGER)
    answer = ask(fresh_http, "How many do badgers eat in a night?")["answer"]
    assert answer.startswith("Earthworms make up most of its diet. A badger may eat two hundred")


def test_a_list_is_shown_from_its_beginning(fresh_http: httpx.Client) -> None:
    rules = (
        "At least 14 characters. Three or four words in a row are fine.",
        "You do not have to change it every few months. You do if you told somebody.",
        "Everything goes into the password manager. No password is kept on paper.",
        "After six wrong attempts the account is locked for 30 minutes. Jonas can unlock it.",
        "Forgotten it? Use your phone code. If that is lost as well, come in person with a badge.",
        "Shared accounts have an owner, who changes theirs when somebody leaves the team.",
    )
    text = "# Passwords\n\n" + "\n".join(f"- {rule}" for rule in rules)
    add_text(fresh_http, "Computers", text)
    shown = ask(fresh_http, "Where do I keep the password, on paper?")["answer"]
    assert [rule in shown for rule in rules[:4]] == [True] * 4


def test_the_end_of_a_contraction_is_no_word_of_a_question(fresh_http: httpx.Client) -> None:
    add_text(fresh_http, "Sickness", DOCUMENTS["Sickness"])
    add_text(fresh_http, "Options", "```\nfor m in message:\n    print(m)\n```\n\nIn m is a text.")
    answer = ask(fresh_http, "I'm ill, what do I have to do?")["answer"]
    assert answer.startswith("If you are ill, tell Petra Lund")


@pytest.mark.parametrize(
    ("question", "told"),
    [("What is the fee for the key?", [2]), ("Which fees are there?", [1, 2, 3])],
)
def test_a_row_that_is_asked_for_is_told_without_the_others(
    question: str, told: list[int], fresh_http: httpx.Client
) -> None:
    fees = ["Item | Fee", "Projector | 35 francs", "Key | 45 francs", "Locker | 20 francs"]
    add_text(fresh_http, "Fees", "\n".join([fees[0], "--- | ---", *fees[1:]]))
    answer = ask(fresh_http, question)["answer"]
    assert answer.startswith(fees[0])
    assert [number for number in (1, 2, 3) if fees[number] in answer] == told


def test_a_follow_up_asks_for_another_row_than_the_question_before_it(
    fresh_http: httpx.Client,
) -> None:
    rows = ["Lunch when travelling | £15", "Dinner when travelling | £30"]
    rows += ["Hotel per night, London | £160", "Hotel per night, elsewhere | £110"]
    rows += ["Mileage, own car | 45p per mile", "Mileage, own bicycle | 20p per mile"]
    table = "\n".join(["What | Limit", "--- | ---", *rows])
    text = (
        f"# Expenses\n\nHand in receipts within 30 days.\n\n{table}\n\n{'It is paid later. ' * 20}"
    )
    add_text(fresh_http, "Expenses", text)
    first = ask(fresh_http, "What is the mileage for a car?")
    assert "45p" in first["answer"]
    then = ask(fresh_http, "and dinner?", first["conversation_id"])
    assert "Dinner when travelling | £30" in then["answer"]
