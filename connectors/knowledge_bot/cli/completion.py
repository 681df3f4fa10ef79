"""`kbot completion`: the shell's part of completing commands and options."""

import click

from knowledge_bot.cli.output import write_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete `kbot`.

    It completes commands, options and files, and the ids of bots, collections and conversations,
    for which it asks the service, for two seconds at most. Where that fails it completes nothing.

    \b
    kbot completion bash > ~/.local/share/bash-completion/completions/kbot
    kbot completion zsh > "${fpath[1]}/_kbot"
    kbot completion fish > ~/.config/fish/completions/kbot.fish
    """  # noqa: D301 - \b is for click
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise TypeError(f"click knows no completion for {shell}")
    write_text(script(ctx.find_root().command, {}, "kbot", "_KBOT_COMPLETE").source())
