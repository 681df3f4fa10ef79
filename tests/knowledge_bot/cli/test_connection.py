"""Which service a command talks to, and with which key."""

import pytest

from scripted_server import answer

LISTING = answer(body={"data": []})


def write(file, *, base_url, api_key="key-of-the-file", mode=0o600, more=""):
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'base_url = "{base_url}"\napi_key = "{api_key}"\n{more}')
    file.chmod(mode)


def test_an_option_wins_over_the_environment_and_that_over_the_file(
    run, scripted, settings_file, monkeypatch
):
    by_option, by_environment, by_file = (scripted(LISTING) for _ in range(3))
    write(settings_file, base_url=by_file.url)
    assert run("bots").exit_code == 0
    assert by_file.requests[0].headers["x-api-key"] == "key-of-the-file"
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", by_environment.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-the-environment")
    assert run("bots").exit_code == 0
    assert by_environment.requests[0].headers["x-api-key"] == "key-of-the-environment"
    assert run("--base-url", by_option.url, "bots").exit_code == 0
    assert by_option.requests[0].headers["x-api-key"] == "key-of-the-environment"
    assert [server.started for server in (by_option, by_environment, by_file)] == [1, 1, 1]


def test_the_key_of_the_file_goes_to_no_other_service(run, scripted, settings_file):
    ours, other = scripted(LISTING), scripted(LISTING)
    write(settings_file, base_url=ours.url)
    assert run("--base-url", other.url, "bots").exit_code == 0
    assert "x-api-key" not in other.requests[0].headers
    done = run("--base-url", other.url, "ask", "bot_1", "Hello")
    assert done.exit_code == 4
    assert f"is for {ours.url}" in done.stderr
    assert "key-of-the-file" not in done.output
    assert other.started == 1


def test_the_key_of_the_file_goes_to_the_same_service_by_another_path(run, scripted, settings_file):
    server = scripted(LISTING)
    write(settings_file, base_url=server.url)
    assert run("--base-url", f"{server.url}/public/v2/", "bots").exit_code == 0
    assert server.requests[0].headers["x-api-key"] == "key-of-the-file"


def test_the_collections_of_the_file_are_those_of_its_service(run, scripted, settings_file):
    ours, other = scripted(LISTING), scripted(LISTING)
    write(settings_file, base_url=ours.url, more='collections = ["col_1"]\n')
    done = run(
        *("--base-url", other.url, "add", "text", "--name", "A", "--content", "x"),
        KNOWLEDGE_BOT_API_KEY="k",
    )
    assert done.exit_code == 1
    assert "The service has no collection" in done.stderr
    assert [request.method for request in other.requests] == ["GET"]


def test_a_call_that_needs_a_key_is_not_sent_without_one(run, scripted):
    server = scripted(LISTING)
    done = run("--base-url", server.url, "ask", "bot_1", "Hello")
    assert done.exit_code == 4
    assert "kbot login" in done.stderr
    assert server.started == 0


def test_without_a_service_the_ways_to_name_one_are_given(run):
    done = run("ping")
    assert done.exit_code == 2
    for way in ("kbot login", "KNOWLEDGE_BOT_BASE_URL", "--base-url", "kbot serve"):
        assert way in done.stderr


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://h.example", "http://u:pw@h.example", "http://["]
)
def test_an_address_that_is_none_is_a_usage_error(run, url, settings_file):
    write(settings_file, base_url="https://h.example")
    done = run("--base-url", url, "bots")
    assert done.exit_code == 2
    assert "base_url" in done.stderr
    assert "pw" not in done.stderr


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_can_read_is_refused(run, scripted, settings_file, mode):
    server = scripted(LISTING)
    write(settings_file, base_url=server.url, mode=mode)
    done = run("bots")
    assert done.exit_code == 2
    assert f"other users can read the API key in it (mode {mode:o})" in done.stderr
    assert "chmod 600" in done.stderr
    assert server.started == 0


def test_a_file_that_is_not_needed_is_not_read(run, scripted, settings_file):
    server = scripted(LISTING)
    write(settings_file, base_url="https://h.example", mode=0o666)
    done = run("--base-url", server.url, "bots", KNOWLEDGE_BOT_API_KEY="k")
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("base_url = ", "not valid TOML"),
        ("\xff", "not valid TOML"),
        ('base_ulr = "https://h.example"', "'base_ulr' is not a setting"),
        ("base_url = 3", "base_url is not a string"),
        ('collections = "col_1"', "collections is not an array of strings"),
        ("collections = [1]", "collections is not an array of strings"),
        ('api_key = ["hidden-key"]', "api_key is not a string"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_reason(run, settings_file, content, word):
    settings_file.parent.mkdir()
    settings_file.write_bytes(content.encode("latin-1"))
    done = run("bots")
    assert done.exit_code == 2
    assert str(settings_file) in done.stderr
    assert word in done.stderr
    assert "hidden-key" not in done.stderr


def test_a_folder_in_the_place_of_the_file_is_a_sentence(run, settings_file):
    settings_file.mkdir(parents=True)
    done = run("bots")
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr
