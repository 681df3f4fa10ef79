"""reStructuredText without its marks, as Sphinx's users write it."""

import pytest

from document_files import Read
from knowledge_bot_service.readers.extract import ExtractionError


def test_a_document_keeps_its_headings_lists_tables_and_code(read):
    source = """
.. _top:

Opening *hours*
===============

The **office** `opens <https://example.com>`_ at ``nine``. |version|

Closing
-------

- one
- two

  #. first
  #. second

Install it::

    pip install x

.. code-block:: python
   :linenos:

   import x

.. list-table::
   :header-rows: 1

   * - day
     - hour
   * - Mon
     - 9

term
    Its definition.

-a, --all   Everything.

.. a comment
"""
    assert read(source, "a.rst") == Read(
        "# Opening hours\n\nThe office opens at nine. |version|\n\n## Closing\n\n"
        "- one\n- two\n  1. first\n  2. second\n\nInstall it:\n\n```\npip install x\n```\n\n"
        "```\nimport x\n```\n\nday | hour\n--- | ---\nMon | 9\n\n"
        "- term: Its definition.\n- -a, --all: Everything.",
        "Opening hours",
    )


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("See :doc:`the guide <../guide>` first.", "See the guide first."),
        ("Call :py:func:`~files.read` or :meth:`close`.", "Call read or close."),
        ("Press :kbd:`Ctrl+C`, in :unheard-of:`any way`.", "Press Ctrl+C, in any way."),
        (".. note:: It is *free*.", "It is free."),
        (".. warning::\n\n   Mind the gap.", "Mind the gap."),
        (".. versionadded:: 2.1\n   The option ``--fast``.", "New in 2.1: The option --fast."),
        (".. deprecated:: 3.0", "Deprecated since 3.0"),
        (".. option:: --verbose, -v\n\n   Prints more.", "--verbose, -v: Prints more."),
        (".. confval:: timeout\n   :type: int\n\n   In seconds.", "timeout: In seconds."),
        (".. tabs::\n\n   .. tab:: Linux\n\n      Use apt.", "Linux: Use apt."),
        (".. prompt:: bash\n\n   pip install x", "```\npip install x\n```"),
        (".. toctree::\n   :maxdepth: 2\n\n   one\n   two\n\nText.", "Text."),
        (".. automodule:: files\n   :members:\n\nText.", "Text."),
        (".. autoclass:: files.File(name)\n   :members:\n\n   It is open.", "It is open."),
        (".. figure:: harbour.png\n\n   The *map*.\n\n   In 1912.", "The map.\n\nIn 1912."),
    ],
)
def test_what_sphinx_adds_is_read_as_its_readers_see_it(markup, text, read):
    assert read(f"Text before.\n\n{markup}", "a.rst").text == f"Text before.\n\n{text}"


@pytest.mark.parametrize("content_type", ["text/x-rst", "text/prs.fallenstein.rst"])
def test_it_is_known_by_its_type_as_well(content_type, read):
    assert read("Title\n=====\n\n*text*", "a", content_type).text == "# Title\n\ntext"


def test_nothing_comes_from_another_file_or_as_html(read, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret,1\n")
    source = f"""
.. include:: {secret}

.. literalinclude:: {secret}

.. csv-table:: Names
   :file: {secret}

.. raw:: html
   :file: {secret}

.. role:: html(raw)
   :format: html

:html:`<script>alert(1)</script>`

End.
"""
    text = read(source, "a.rst").text
    assert "secret," not in text
    assert text.endswith("End.")


def test_what_docutils_cannot_read_is_a_text_like_any_other(read):
    nested = "\n\n".join("  " * level + f"- item {level}" for level in range(300))
    assert "item 299" in read(nested, "a.rst").text


def test_a_document_that_only_includes_others_has_no_text(read):
    with pytest.raises(ExtractionError, match="no text"):
        read(".. include:: ../README.rst\n", "a.rst")


@pytest.mark.parametrize(
    "source",
    ["===", ".. a::", "```" * 1000, "+--+\n|a\n", ":a:`b", ".. |x| replace:: |x|\n\n|x|", "`a "],
)
def test_damaged_markup_is_no_reason_to_fail(source, read):
    assert read(f"{source}\n\nend", "a.rst").text.endswith("end")


def test_a_document_that_would_take_too_long_is_a_text_like_any_other(read):
    source = "*word* *word*\n\n"
    text = read(source * (2 * 1024 * 1024 // len(source) + 1), "a.rst").text
    assert text.startswith("*word* *word*")
