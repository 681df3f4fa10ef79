"""Markdown without its marks."""

import pytest

from document_files import Read


def test_markdown_keeps_its_words_and_loses_its_marks(read):
    source = """---
title: "Handbook"
---
# Opening *hours*

The **office** [opens](https://example.com/a_(b)) at `nine`. <!-- not
this -->See ![the map](map.png) or [the rules][1].

Closing
-------

> snake_case and 2 * 3 * 4 stay, so does \\*this\\*.

- one
- _two_

```python
x = a_b_c  # **kept**
```

| day | hour |
|-----|------|
| Mon | 9    |

[1]: https://example.com
"""
    document = read(source, "a.md")
    assert document == Read(
        "# Opening hours\n\nThe office opens (https://example.com/a_(b)) at nine."
        " See the map or the rules (https://example.com).\n\n## Closing\n\n"
        "snake_case and 2 * 3 * 4 stay, so does *this*.\n\n- one\n- two\n\n"
        "```python\nx = a_b_c  # **kept**\n```\n\nday | hour\n--- | ---\nMon | 9",
        "Handbook",
    )


def test_the_first_heading_of_a_markdown_file_is_its_title(read):
    assert read("Intro\n\n## The *rules*\n\ntext", "", "text/markdown").title == "The rules"


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# The language C#", "The language C#"),
        ("## Closed ##", "Closed"),
        ("# Spaced #  ", "Spaced"),
        ("# C# #", "C#"),
    ],
)
def test_marks_that_close_a_heading_go_and_those_of_its_words_stay(heading, title, read):
    assert read(f"{heading}\n\ntext", "a.md").title == title


def test_every_cell_of_a_table_stays_in_its_column(read):
    source = (
        "| option | default | type |\n|---|:-:|--:|\n| `NAME` |  |  |\n|  | 8700 | int |\n"
        "| `--role [read\\|write]` | read | `str \\| None` |\n\n|a|b|\n|--|--|\n|1||"
    )
    assert read(source, "a.md").text == (
        "option | default | type\n--- | --- | ---\n| NAME |  |  |\n|  | 8700 | int |\n"
        "--role [read|write] | read | str|None\n\na | b\n--- | ---\n| 1 |  |"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Run `uv cache clean <package>` now.", "Run uv cache clean <package> now."),
        ("**`--all`** and [`*args`](x) and ``__init__``", "--all and *args and __init__"),
        ("~~was `15`~~ is `20` or `25`", "is 20 or 25"),
        (
            "`&lt;` is &lt;, &#169; is &copy;&nbsp;here & there &nosuch;",
            "&lt; is <, © is © here & there &nosuch;",
        ),
        ("one<br>two<br/>three\\\nfour", "one two three\nfour"),
        ("It is so.[^1]\n\n[^1]: As *measured*.", "It is so.\n\nAs measured."),
        (":::note\nIt is free.\n:::", "It is free."),
        ("a \\`b\\` c", "a `b` c"),
        (
            "<table>\n<tr><th>Item</th><th>Fee</th></tr>\n<tr><td>Key</td><td>45</td></tr>\n</table>",
            "Item | Fee\n--- | ---\nKey | 45",
        ),
    ],
)
def test_code_is_kept_as_it_is_and_marks_go(line, words, read):
    assert read(f"Text.\n\n{line}", "a.md").text == f"Text.\n\n{words}"


def test_what_a_note_or_a_tab_holds_is_text_after_its_title(read):
    source = (
        'Install it:\n\n=== "Linux"\n\n    Open a shell:\n\n    ```\n    apt install x\n    ```\n\n'
        '=== "Windows"\n\n    Run setup.\n\n!!! note\n\n    It is free.\n\nEnd.'
    )
    assert read(source, "a.md").text == (
        "Install it:\n\nLinux:\n\nOpen a shell:\n\n```\napt install x\n```\n\nWindows:\n\n"
        "Run setup.\n\nIt is free.\n\nEnd."
    )


@pytest.mark.parametrize(
    "source",
    [
        "[" * 100_000,
        "[](" * 30_000,
        "<!--" * 30_000,
        "*a " * 30_000,
        "`" * 100_000,
        "a" + "`" * 100_000,
        "a `b" * 30_000,
        "[^" * 30_000,
        "&a" * 30_000,
        "_" * 100_000,
        "> " * 30_000,
        "# " * 30_000,
        "<a " * 30_000,
        "\\" * 100_000,
        "~~~\n" * 15_000,
        "*b* " + " " * 100_000 + "c",
        "{.a " * 30_000,
        ":a-" * 30_000,
        "[a]: b\n[a] " * 15_000,
        "".join("  " * level + f"- item {level}\n" for level in range(1000)),
    ],
)
@pytest.mark.timeout(30)  # in time that grows with the square of the length, it takes minutes
def test_hostile_markdown_takes_time_in_proportion_to_its_length(source, read):
    read(source + "\n\nend", "a.md")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("# Locks ### {: #locks }\n\nText.", "# Locks\n\nText."),
        ("## Locks {#locks .wide}\n\nText.", "## Locks\n\nText."),
        (":octicons-number-24:{ .lg .middle } **Versions** at 12:30", "Versions at 12:30"),
        (
            "A [Domain], `[Domain]`, [none].\n\n[domain]: https://x.org",
            "A Domain (https://x.org), [Domain], [none].",
        ),
    ],
)
def test_what_generators_of_documentation_add_is_left_out(source, text, read):
    assert read(source, "a.md").text.strip() == text
