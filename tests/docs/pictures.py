"""The pictures of the architecture pages, drawn from the imports: `scripts/pictures`.

Each box is a module, or a package that has a picture of its own; an arrow means "imports". What
follows from other arrows is left out.
"""

import ast
import hashlib
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "architecture"
SOURCES = {
    package: ROOT / folder / package
    for folder, packages in {
        "connectors": (
            "knowledge_bot",
            "knowledge_bot_gateway",
            "knowledge_bot_web",
            "langchain_knowledge_bot",
            "llama_index_knowledge_bot",
        ),
        "airflow_provider": ("airflow_knowledge_bot",),
        "service": ("knowledge_bot_service",),
    }.items()
    for package in packages
}

# Pictures by the package they show; the core's larger parts have their own.
PICTURES = (
    "knowledge_bot",
    "knowledge_bot.checks",
    "knowledge_bot.cli",
    "knowledge_bot.ingest",
    "knowledge_bot_gateway",
    "knowledge_bot_service",
    "knowledge_bot_web",
    "langchain_knowledge_bot",
    "llama_index_knowledge_bot",
    "airflow_knowledge_bot",
)

# Errors and models are imported everywhere, and say nothing about who builds on whom.
EVERYWHERE = ("knowledge_bot.errors", "knowledge_bot.models")

_STYLE = """
    graph [bgcolor="transparent", ranksep=0.5, nodesep=0.25, fontname="sans-serif"]
    node [shape=box, style="rounded,filled", fillcolor="#eef2ff", color="#4f5db3", penwidth=1,
          fontname="sans-serif", fontsize=12, fontcolor="#1b1f3b", margin="0.12,0.06", height=0.35]
    edge [color="#7a84c9", arrowsize=0.6]
"""


def rooms_of(package: str, graph: grimp.ImportGraph) -> dict[str, str]:
    """For each module of a package the box that it is drawn in."""
    rooms = {}
    for module in graph.find_descendants(package) | {package}:
        if module in EVERYWHERE:
            continue
        name = module.removeprefix(package).removeprefix(".").partition(".")[0]
        if name:
            rooms[module] = name
    return rooms


def arrows_of(package: str, graph: grimp.ImportGraph) -> set[tuple[str, str]]:
    """Which box imports which."""
    rooms = rooms_of(package, graph)
    return {
        (room, rooms[imported])
        for module, room in rooms.items()
        for imported in graph.find_modules_directly_imported_by(module)
        if imported in rooms and rooms[imported] != room
    }


def summary_of(module: str) -> str:
    """The first sentence of a module's docstring."""
    package, *inner = module.split(".")
    path = SOURCES[package].joinpath(*inner)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.split("\n\n")[0].split())


def dot_of(package: str) -> str:
    """The picture of a package as Graphviz reads it."""
    # TYPE_CHECKING imports name types; they are not what a module builds on.
    graph = grimp.build_graph(
        package.partition(".")[0], exclude_type_checking_imports=True, cache_dir=None
    )
    lines = ["digraph {", _STYLE]
    for room in sorted(set(rooms_of(package, graph).values())):
        tooltip = summary_of(f"{package}.{room}").replace('"', "'")
        lines.append(f'    "{room}" [tooltip="{tooltip}"]')
    lines += [f'    "{one}" -> "{other}"' for one, other in sorted(arrows_of(package, graph))]
    return "\n".join([*lines, "}", ""])


def file_of(package: str) -> Path:
    return FOLDER / f"{package.replace('.', '-')}.svg"


def mark_of(dot: str) -> str:
    """What a picture carries to tell whether it is the present one."""
    return f"<!-- scripts/pictures {hashlib.sha256(dot.encode()).hexdigest()[:16]} -->"


def main() -> None:
    for package in PICTURES:
        dot = dot_of(package)
        try:
            # Without the arrows that follow from others.
            reduced = subprocess.run(["tred"], input=dot.encode(), capture_output=True, check=True)
            drawn = subprocess.run(
                ["dot", "-Tsvg"], input=reduced.stdout, capture_output=True, check=True
            )
        except FileNotFoundError:
            sys.exit("Drawing needs Graphviz; Debian and Homebrew have it as `graphviz`.")
        svg = drawn.stdout.decode()
        svg = svg[svg.index("<svg") :]
        file_of(package).write_text(f"{mark_of(dot)}\n{svg}", encoding="utf-8")
        sys.stdout.write(f"{file_of(package).relative_to(ROOT)}: {len(svg):,} bytes\n")


if __name__ == "__main__":
    main()
