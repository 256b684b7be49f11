"""Write the generated parts of docs/architecture.md: the picture of the packages and the way of one record.

`make docs` writes them; `python docs/architecture.py --check` fails if what is committed differs.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGE = "eos_assets"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"

#: The way of one record starts at the command that writes it and at the asset check that proves it.
STARTS = (("cli.run", "run_command"), ("orchestration.checks", "invariant_checks"))
#: The packages whose modules are counted, in the order of the way.
COUNTED = ("cli.run", "run", "transform", "sink", "log", "kafka", "orchestration.checks", "verify")
#: Modules that code on the way uses in other cases. What only they use is left out, too.
LEFT_OUT = {
    "run.arrow_job": "Arrow pipelines",
    "run.preflight": "refuses a run before it writes anything",
    "run.grow_topics": "lets a pipeline's topics grow with its source",
    "run.refusals": "reports an error that no retry can heal",
    "run.poison_records": "isolates a record on which the transform raises",
    "run.stateful_job": "the state of stateful pipelines",
    "sink.arrow_task": "Arrow pipelines",
    "transform.arrow_function": "Arrow pipelines",
    "transform.business_key": "repeats of a declared business key",
    "transform.combined_records": "refuses a transform that combines records",
    "transform.determinism": "refuses a transform that is not deterministic",
    "transform.spark_errors": "classifies a failed Spark job",
    "transform.spark_plan": "reads the plan that decides whether to refuse or align a transform",
    "transform.user_code": "reports an error of the user's function",
    "sink.errors": "classifies an error of Kafka",
    "log.corrupt_entry": "reports a foreign message in a ledger or map",
    "kafka.admin": "creates topics and compares them with their declaration",
    "kafka.auth": "credentials",
    "kafka.auth_errors": "reports refused credentials and permissions",
    "kafka.open_transactions": "names who holds back a topic",
    "kafka.retries": "repeats a request that the brokers cannot answer yet",
    "verify.provenance_frame": "compares rows after totals differed",
    "verify.rows": "compares rows after totals differed",
    "verify.state_checker": "the state of stateful pipelines",
    "verify.state_replay": "the state of stateful pipelines",
}

ROW, LEFT, BOX = 34, 250, 130


# The packages


def layers() -> list[list[str]]:
    """The layers of the import-linter contract, from the top; packages in one layer are independent of each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def package_imports() -> dict[str, set[str]]:
    """The other packages that each package imports."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True)
    imports: dict[str, set[str]] = {name: set() for layer in layers() for name in layer}
    if missing := {name.partition(".")[2] for name in graph.find_children(PACKAGE)} - set(imports):
        sys.exit(f"{', '.join(sorted(missing))} has no layer. Add it to the import-linter contract in pyproject.toml.")
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = (name.partition(".")[2].partition(".")[0] for name in (module, imported))
            if source != target and source and target:
                imports[source].add(target)
    return imports


def below(name: str, imports: dict[str, set[str]]) -> set[str]:
    """Everything that a package imports, directly or not."""
    return set(imports[name]).union(*(below(other, imports) for other in imports[name]))


def needed(name: str, imports: dict[str, set[str]]) -> set[str]:
    """The direct imports that no other import implies: the transitive reduction of the graph."""
    return imports[name].difference(*(below(other, imports) for other in imports[name]))


def file_of(module: str) -> Path:
    path = ROOT / PACKAGE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def purpose(module: str) -> str:
    """The first sentence of the docstring."""
    text = ast.get_docstring(ast.parse(file_of(module).read_text())) or ""
    return re.split(r"\.\s|\.$|\n\n", " ".join(text.split(" ")), maxsplit=1)[0].replace("\n", " ")


def picture() -> str:
    """One row per package, in the order of the layers. Every arc is an import, and leads down."""
    rows = [(name, number) for number, layer in enumerate(layers()) for name in layer]
    middle = {name: ROW * row + ROW // 2 for row, (name, _) in enumerate(rows)}
    imports = package_imports()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 {ROW * len(rows)}" font-family="sans-serif">',
        f'<rect width="1200" height="{ROW * len(rows)}" fill="white"/>',
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker>',
    ]
    for row, (_, layer) in enumerate(rows):
        if layer % 2:
            lines.append(f'<rect y="{ROW * row}" width="1200" height="{ROW}" fill="#f3f5f8"/>')
    arcs = [(target in needed(name, imports), name, target) for name in imports for target in imports[name]]
    for direct, name, target in sorted(arcs):
        start, end = middle[name], middle[target]
        bend = LEFT - min(220, 16 + abs(end - start) // 2)
        drawn = 'stroke="#555" marker-end="url(#tip)"' if direct else 'stroke="#ddd"'
        lines.append(f'<path d="M{LEFT} {start}C{bend} {start} {bend} {end} {LEFT} {end}" fill="none" {drawn}/>')
    for name, _ in rows:
        lines += [
            f'<rect x="{LEFT}" y="{middle[name] - 12}" width="{BOX}" height="24" rx="4" fill="#dbe7f5"/>',
            f'<text x="{LEFT + 8}" y="{middle[name] + 5}" font-size="14">{name}</text>',
            f'<text x="{LEFT + BOX + 14}" y="{middle[name] + 5}" font-size="13" fill="#444">'
            f"{escape(purpose(name), quote=False)}</text>",
        ]
    return "\n".join([*lines, "</svg>", ""])


# The way of one record


class Module:
    """The definitions of a module and the names that it imports from the project."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        tree = ast.parse(file_of(name).read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for part in (part for target in targets for part in ast.walk(target)):
                    if isinstance(part, ast.Name):
                        self.definitions[part.id] = node
        for code in ast.walk(tree):
            if isinstance(code, ast.ImportFrom) and (code.module or "").partition(".")[0] == PACKAGE:
                origin = str(code.module).partition(".")[2]
                for alias in code.names:
                    self.imports[alias.asname or alias.name] = (origin, alias.name)


class Way:
    """The definitions that are used from the starts on.

    A definition is used when code on the way uses its name, outside annotations. A method is used when its class is and
    code on the way uses an attribute of that name. So more may be found than runs for one record.
    """

    def __init__(
        self, starts: tuple[tuple[str, str], ...] = STARTS, left_out: tuple[str, ...] = tuple(LEFT_OUT)
    ) -> None:
        self.left_out = left_out
        self.modules: dict[str, Module] = {}
        self.found: set[tuple[str, str]] = set()
        self.attributes: set[str] = set()
        self.waiting: dict[str, list[tuple[Module, ast.AST]]] = {}
        self.work = list(starts)
        while self.work:
            self.follow(*self.work.pop())

    def counted(self) -> list[str]:
        return sorted({module for module, _ in self.found if is_within(module, COUNTED)})

    def module(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = Module(name)
        return self.modules[name]

    def follow(self, name: str, definition: str) -> None:
        if is_within(name, self.left_out):
            return
        module = self.module(name)
        if definition in module.imports and definition not in module.definitions:
            self.use(module, definition)
        if (name, definition) in self.found or definition not in module.definitions:
            return
        self.found.add((name, definition))
        node = module.definitions[definition]
        if not isinstance(node, ast.ClassDef):
            self.read(module, node)
            return
        for part in (*node.bases, *node.body):
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
                self.waiting.setdefault(part.name, []).append((module, part))
            else:
                self.read(module, part)
        for method in self.attributes & set(self.waiting):
            self.read_methods(method)

    def read(self, module: Module, code: ast.AST) -> None:
        for node in outside_annotations(code):
            if isinstance(node, ast.Attribute):
                self.attributes.add(node.attr)
                self.read_methods(node.attr)
                if isinstance(node.value, ast.Name):
                    self.use(module, node.value.id, node.attr)
            elif isinstance(node, ast.Name):
                self.use(module, node.id)

    def read_methods(self, name: str) -> None:
        for module, method in self.waiting.pop(name, []):
            self.read(module, method)

    def use(self, module: Module, name: str, attribute: str = "") -> None:
        if name in module.definitions:
            self.work.append((module.name, name))
        elif name in module.imports:
            origin, imported = module.imports[name]
            submodule = f"{origin}.{imported}".lstrip(".")
            if not file_of(submodule).exists():
                self.work.append((origin, imported))
            elif attribute:
                self.work.append((submodule, attribute))


def outside_annotations(code: ast.AST) -> Iterator[ast.AST]:
    yield code
    for field, value in ast.iter_fields(code):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from outside_annotations(child)


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def way_of_one_record() -> str:
    gone = [module for module in LEFT_OUT if not file_of(module).exists()]
    if gone:
        sys.exit(f"{', '.join(gone)} does not exist. Correct LEFT_OUT in {Path(__file__).name}.")
    modules, to_the_commit, everything = Way().counted(), Way(STARTS[:1]).counted(), Way(left_out=()).counted()
    lines = [
        f"**{len(modules)} modules** are on the way, {len(to_the_commit)} of them up to the commit. "
        f"With what is left out, there are {len(everything)}.",
        "",
        "| package | modules | |",
        "| --- | --- | --- |",
    ]
    for package in COUNTED:
        names = [module for module in modules if is_within(module, (package,))]
        shown = ", ".join(f"`{name.removeprefix(f'{package}.')}`" for name in names)
        lines.append(f"| `{package}` | {shown} | {len(names)} |")
    lines += ["", "| left out | what it is for |", "| --- | --- |"]
    lines += [f"| `{module}` | {reason} |" for module, reason in LEFT_OUT.items()]
    return "\n".join(lines)


def page() -> str:
    before, begin, rest = PAGE.read_text().partition("<!-- generated -->\n")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{begin}\n{way_of_one_record()}\n\n{end}{after}"


def main() -> None:
    generated = {PAGE: page(), PICTURE: picture()}
    outdated = [path for path, text in generated.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv:
        for path in outdated:
            path.write_text(generated[path])
    elif outdated:
        names = ", ".join(str(path.relative_to(ROOT)) for path in outdated)
        sys.exit(f"Generated parts are out of date: {names}. Run `make docs`.")


if __name__ == "__main__":
    main()
