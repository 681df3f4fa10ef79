"""`kbot login`, `logout` and `profiles`: services and keys, kept in a file of yours."""

import os
import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from knowledge_bot._profiles import (
    UNNAMED,
    Profile,
    ProfileError,
    Settings,
    check_name,
    read_settings,
    remove_settings,
    settings_file,
    write_settings,
)
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.ids import collection_ids, profile_names
from knowledge_bot.cli.output import as_json_option, write_document, write_table
from knowledge_bot.cli.settings import API_KEY_VARIABLE, BASE_URL_VARIABLE, Connection
from knowledge_bot.cli.terminal import write_stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from knowledge_bot import Collection


# Also behind the command's name, where it reads best.
_profile_option = click.option(
    "--profile",
    "own_name",
    metavar="NAME",
    shell_complete=profile_names,
    help="The profile's name.  [default: KBOT_PROFILE, or the default one]",
)


@click.command()
@_profile_option
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin instead of asking for it.")
@click.option(
    "--keyring/--no-keyring",
    "keyring",
    default=None,
    help="Keep the key in the operating system's keyring (needs the package keyring), or in the "
    "file.  [default: where it was, at first in the file]",
)
@click.option(
    "--collection",
    "wanted",
    multiple=True,
    metavar="ID",
    shell_complete=collection_ids,
    help="Add to this collection from now on. Repeatable.  [default: the service's only one, if it "
    "has just one]",
)
@click.pass_obj
def login(
    connection: Connection,
    *,
    own_name: str | None,
    key_stdin: bool,
    keyring: bool | None,
    wanted: tuple[str, ...],
) -> None:
    """Keep a service's address and your key in a file.

    Both are tried by listing the collections, then saved with mode 600. A service may list them
    without a look at the key; then the first `ask` or `add` shows whether the key is good. Each
    service has a profile of its own; the first one is the default.

    \b
    kbot login
    kbot login --profile staging --keyring
    pass show kbot | kbot --base-url https://service.example login --key-stdin
    """  # noqa: D301 - \b is for click
    settings = read_settings(to_replace=True)
    name = own_name or connection.profile_name or settings.default or UNNAMED
    known = settings.profiles.get(name)
    if known is None:
        check_name(name)
    named = bool(own_name or connection.profile)
    base_url = connection.base_url or _address(known, named=named, ask=not key_stdin)

    from knowledge_bot import Client

    if keyring is None:
        keyring = known is not None and known.keyring
    profile = Profile(name, base_url, keyring=keyring)
    # A setting that cannot be used is reported before anybody types a key.
    Client("not-yet-known", base_url).close()
    if keyring:
        profile.check_keyring()
    key = _piped_key() if key_stdin else _asked_key()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shown by now
        client = Client(key, base_url, timeout=connection.timeout)
    with client:
        found = client.list_collections()
    chosen = _collections(wanted, found)
    profile = replace(profile, api_key="" if keyring else key, collections=chosen)
    if keyring:
        profile.put_into_keyring(key)
    settings = settings.having({**settings.profiles, name: profile})
    file = write_settings(settings)
    if known and replace(known, collections=chosen) != profile:
        _forget_key(known)
    if known and known.base_url != base_url:
        write_stderr(f"The profile {name} was {known.base_url} until now.")
    _show_what_was_saved(profile, settings, str(file))


@click.command()
@_profile_option
@click.option("--all", "everything", is_flag=True, help="Remove all profiles, and the file.")
@click.pass_obj
def logout(connection: Connection, own_name: str | None, everything: bool) -> None:
    """Forget a service that `kbot login` saved.

    It forgets the default profile, or the one that is named; the file goes with the last one. The
    key stays valid; only this machine forgets it.

    \b
    kbot logout
    kbot logout --profile staging
    """  # noqa: D301 - \b is for click
    if everything:
        if own_name or connection.profile:
            raise click.UsageError("--all goes with no --profile")
        _remove_all()
        return
    file, settings = settings_file(), read_settings(to_replace=True)
    profile = settings.find(own_name or connection.profile_name)
    if profile is None:
        write_stderr(f"There is no {'profile in ' if file.exists() else ''}{file}.")
        return
    profile.remove_from_keyring()
    others = {name: one for name, one in settings.profiles.items() if name != profile.name}
    if not others:
        write_stderr(remove_settings())
        return
    left = settings.having(others)
    write_settings(left)
    default = f"the default is {left.default}" if left.default else "none of them is the default"
    write_stderr(
        f"The profile {profile.name} is removed; {', '.join(left.profiles)} stay, {default}."
    )


@click.command()
@click.option(
    "--default",
    "new_default",
    metavar="NAME",
    shell_complete=profile_names,
    help="Use this one where none is named.",
)
@as_json_option
def profiles(new_default: str | None, as_json: bool) -> None:
    """List the services that `kbot login` saved.

    One of them is the default; `--profile NAME` before a command's name, or KBOT_PROFILE, selects
    another one.

    \b
    kbot profiles
    kbot profiles --default staging
    """  # noqa: D301 - \b is for click
    settings = read_settings()
    if new_default is not None:
        settings.find(new_default)
        settings = Settings(settings.profiles, new_default)
        write_settings(settings)
    listed = [
        {
            "name": one.name,
            "base_url": one.base_url,
            "key": "keyring" if one.keyring else "file" if one.api_key else None,
            "collections": list(one.collections),
            "default": one.name == settings.default,
        }
        for one in settings.profiles.values()
    ]
    if as_json:
        write_document(listed)
    elif not listed:
        write_stderr("There is no profile; `kbot login` makes one.")
    else:
        rows = ([*{**one, "default": "default" * bool(one["default"])}.values()] for one in listed)
        write_table(("profile", "service", "key in", "collections", "default"), rows)


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


def _collections(wanted: tuple[str, ...], found: "Sequence[Collection]") -> tuple[str, ...]:
    there = [one.id for one in found]
    if missing := [one for one in wanted if one not in there]:
        raise Failed(
            f"The service has no collection {', '.join(missing)}; it has "
            f"{', '.join(there) or 'none'}.",
            Exit.USAGE,
        )
    return wanted or (tuple(there) if len(there) == 1 else ())


def _show_what_was_saved(profile: Profile, settings: Settings, file: str) -> None:
    where = "the key to the keyring, the rest to " if profile.keyring else ""
    write_stderr(f"The service answers. Written: {where}{file}, readable by you alone.")
    if profile.name != settings.default:
        write_stderr(f"Use it with --profile {profile.name} or KBOT_PROFILE={profile.name}.")
    if profile.collections:
        write_stderr(f"Sources are added to {', '.join(profile.collections)}.")
    else:
        write_stderr("`kbot collections` lists the collections to choose from.")
    if os.environ.get(API_KEY_VARIABLE):
        write_stderr(f"{API_KEY_VARIABLE} is set, and wins over the file.")


def _remove_all() -> None:
    try:
        settings = read_settings(to_replace=True)
    except ProfileError as error:
        write_stderr(f"Warning: {error} What it may have kept in a keyring stays there.")
        settings = Settings()
    for profile in settings.profiles.values():
        _forget_key(profile)
    write_stderr(remove_settings())


def _forget_key(profile: Profile) -> None:
    try:
        profile.remove_from_keyring()
    except ProfileError as error:
        write_stderr(f"Warning: {error}")
