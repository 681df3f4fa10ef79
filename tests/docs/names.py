"""The public names of all packages: what their users import."""

import ast
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]

CORE = [
    name
    for name in (ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8").splitlines()
    if not name.endswith(".__version__")
]


def listed(module: str) -> list[str]:
    """Return the names in a module's `__all__`, or what it defines, without importing it."""
    package, *inner = module.split(".")
    path = Path(find_spec(package).submodule_search_locations[0]).joinpath(*inner)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = [name for name in ast.literal_eval(node.value) if name != "__version__"]
            return [f"{module}.{name}" for name in names]
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [f"{module}.{name}" for name in defined if not name.startswith("_")]


# The gateway has no names for users: `kbot mcp` and `kbot gateway` are how it is used.
PUBLIC = sorted(
    {
        *CORE,
        *listed("airflow_knowledge_bot.operators"),
        *listed("airflow_knowledge_bot.hooks"),
        *listed("airflow_knowledge_bot.sensors"),
        *listed("knowledge_bot_service"),
        *listed("langchain_knowledge_bot"),
        *listed("llama_index_knowledge_bot"),
    }
)
