"""`kbot login`: a service's address and your key, kept in a file of yours."""

import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from knowledge_bot import ConfigurationError
from knowledge_bot._profiles import (
    FILE_VARIABLE,
    UNNAMED,
    Profile,
    read_profiles,
    settings_file,
)
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import check_collections
from knowledge_bot.cli.settings import API_KEY_VARIABLE, BASE_URL_VARIABLE, ServiceOptions
from knowledge_bot.cli.terminal import write_stderr


@click.command()
@click.option(
    "--profile",
    "own_name",
    metavar="NAME",
    help="The profile's name.  [default: KBOT_PROFILE, or default]",
)
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin instead of asking for it.")
@click.option(
    "--collection",
    "wanted",
    multiple=True,
    metavar="ID",
    help="Add to this collection from now on. Repeatable.  [default: the service's only one, if it "
    "has just one]",
)
@click.pass_obj
def login(
    settings: ServiceOptions, *, own_name: str | None, key_stdin: bool, wanted: tuple[str, ...]
) -> None:
    """Keep a service's address and your key in a file of yours.

    Only you can read it (mode 600). Both are tried by listing the collections. A service may list
    them without a look at the key; then the first `ask` or `add` shows whether the key is good.
    Each service has a profile of its own; the one without a name, `default`, is used where none is
    named. To forget a service, remove its table from the file that `kbot doctor` names.

    \b
    kbot login
    kbot login --profile staging
    pass show kbot | kbot --base-url https://service.example login --key-stdin
    """  # noqa: D301 - \b is for click
    profiles = read_profiles()
    name = own_name or settings.profile_name or UNNAMED
    known = profiles.get(name)
    if known is None:
        _check_name(name)
    named = bool(own_name or settings.profile)
    base_url = settings.base_url or _address(known, named=named, ask=not key_stdin)

    from knowledge_bot import Client

    # A setting that cannot be used is reported before anybody types a key.
    Client("not-yet-known", base_url).close()
    key = _piped_key() if key_stdin else _asked_key()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shown by now
        client = Client(key, base_url, timeout=settings.timeout)
    with client:
        found = client.list_collections()
    check_collections(wanted, found)
    only = (found[0].id,) if len(found) == 1 else ()
    profile = Profile(name, base_url, key, wanted or only)
    profiles[name] = profile
    try:
        file = _write(profiles.values())
    except OSError as error:
        raise Failed(f"{settings_file()}: cannot be written: {error.strerror}.") from None
    if known and known.base_url != base_url:
        write_stderr(f"The profile {name} was {known.base_url} until now.")
    _show_what_was_saved(profile, profiles, file)


def _address(known: Profile | None, *, named: bool, ask: bool) -> str:
    """Return the address from the environment, or from the profile, or ask for it."""
    variable, kept = os.environ.get(BASE_URL_VARIABLE), known.base_url if known else None
    # A named profile does not mean the service that the environment names.
    if variable and not named:
        return variable
    if ask and sys.stdin.isatty():
        return str(click.prompt("Base URL", default=kept or variable, err=True)).strip()
    if address := kept or variable:
        return address
    raise Failed(
        "No service is named, and there is no terminal to ask for it: pipe the key to"
        " kbot --base-url URL login --key-stdin",
        Exit.USAGE,
    )


def _asked_key() -> str:
    if not sys.stdin.isatty():
        raise Failed("There is no terminal to ask for the key; pipe it to --key-stdin.", Exit.USAGE)
    return str(click.prompt("API key (not shown)", hide_input=True, err=True)).strip()


def _piped_key() -> str:
    key = sys.stdin.readline().strip()
    if not key:
        raise Failed("stdin held no key.", Exit.USAGE)
    return key


def _show_what_was_saved(profile: Profile, profiles: dict[str, Profile], file: Path) -> None:
    write_stderr(f"The service answers. Written: {file}, readable by you alone.")
    if profile.name != UNNAMED and len(profiles) > 1:
        write_stderr(f"Use it with --profile {profile.name} or KBOT_PROFILE={profile.name}.")
    if profile.collections:
        write_stderr(f"Sources are added to {', '.join(profile.collections)}.")
    else:
        write_stderr("`kbot collections` lists the collections to choose from.")
    if os.environ.get(API_KEY_VARIABLE):
        write_stderr(f"{API_KEY_VARIABLE} is set, and wins over the file.")


def _check_name(name: str) -> None:
    """Check what a new profile is to be called.

    Raises:
        ConfigurationError: it cannot be typed without quotes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ConfigurationError(
            f"{name!r} cannot name a profile; use letters, digits, dots, dashes and underscores"
        )


def _write(profiles: Iterable[Profile]) -> Path:
    """Write the file atomically, readable by its owner alone.

    Returns:
        The file's path.

    Raises:
        ConfigurationError: what is there is no file, such as a device.
        OSError: it cannot be written.
    """
    file = settings_file().resolve()  # a link to it stays one
    # Root could replace a device, such as /dev/null, for everybody.
    if file.exists() and not file.is_file():
        raise ConfigurationError(
            f"{file}: is not a file that can be replaced; set {FILE_VARIABLE} to another"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes it with mode 600.
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
            stream.write("\n".join(map(_as_toml, profiles)))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return file


def _as_toml(profile: Profile) -> str:
    values = asdict(profile)
    name = values.pop("name")
    # JSON's strings and arrays are TOML's as well, once characters are written as they are.
    lines = [f"{key} = {json.dumps(of, ensure_ascii=False)}\n" for key, of in values.items() if of]
    return f"[{json.dumps(name)}]\n{''.join(lines)}"
