"""Tables as rows that can be read by themselves."""

import pytest


def test_each_row_of_a_table_names_its_columns(read):
    document = read('name;city\nAlice;"Berlin;\nMitte"\n\nBob;\n', "a.csv")
    assert document.text == "name: Alice; city: Berlin; Mitte\n\nname: Bob; city: –"  # noqa: RUF001


def test_a_table_without_headings_is_its_rows(read):
    assert read("Alice\t36\nBob\t40\n", "a.tsv").text == "Alice; 36\n\nBob; 40"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("Country,2023,2024\nNorway,5.5,5.6\n", "Country: Norway; 2023: 5.5; 2024: 5.6"),
        (",Town,Room\n0,Bern,Hall\n", "0; Town: Bern; Room: Hall"),
        ("Name,Phone,Phone\nAda,044 1,079 1\n", "Name: Ada; Phone: 044 1; Phone: 079 1"),
        ("sep=;\r\nName;Phone\r\nAda;044 1\r\n", "Name: Ada; Phone: 044 1"),
        (
            "Members of 2026\n\nName,Phone\nAda,044 1\n",
            "Members of 2026\n\nName: Ada; Phone: 044 1",
        ),
        ("# a comment, long\nName,Fee\nAda,3\n", "a comment long\n\nName: Ada; Fee: 3"),
        ("Name;Fee\nAda;1,50\nBen;2,75\n", "Name: Ada; Fee: 1,50\n\nName: Ben; Fee: 2,75"),
        ("1;2\n3;4\n", "1; 2\n\n3; 4"),
    ],
)
def test_columns_are_named_as_people_name_them(table, text, read):
    assert read(table, "a.csv").text == text
