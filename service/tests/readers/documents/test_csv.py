"""Tables as rows that can be read by themselves."""


def test_each_row_of_a_table_names_its_columns(read):
    document = read('name;city\nAlice;"Berlin;\nMitte"\n\nBob;\n', "a.csv")
    assert document.text == "name: Alice; city: Berlin; Mitte\n\nname: Bob; city: –"  # noqa: RUF001


def test_a_table_without_headings_is_its_rows(read):
    assert read("Alice\t36\nBob\t40\n", "a.tsv").text == "Alice; 36\n\nBob; 40"
