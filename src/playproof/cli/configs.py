"""Make a command's options from config dataclasses, and read settings from a file, from --set and from options.

Every field becomes an option: its name, type, limits (`Ge`, `Le`) and default are the field's, its help is the
docstring below the field. What an option cannot say, such as null or a nested record, `--set name=value` can, and
`--config FILE.toml` takes all of it. One rule: the file is overruled by --set, and both by options. Values are
checked against the field's type wherever they come from.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import json
import textwrap
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Le

from playproof.errors import ConfigError
from playproof.json_types import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    C = TypeVar("C", bound=DataclassInstance)

PANEL = "Settings"
_NONE: Mapping[str, Any] = {}

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings by their names; --set and options overrule it."),
]
SetTexts = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting as name=value, the value as JSON or text; may be given again."),
]


@dataclass(frozen=True)
class Settings:
    """What a user set, not yet checked: by a file, by --set and by options."""

    file: Path | None = None
    texts: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Only the options that were given, by the fields' names."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where the command's default is not the dataclass's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Options whose names are not their fields' names, by field."""

    def values(self) -> dict[str, tuple[str, Any]]:
        """Give each setting's value with where it was set, the strongest source for each."""
        result: dict[str, tuple[str, Any]] = {}
        if self.file is not None:
            try:
                table = tomllib.loads(self.file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise ConfigError(f"expected a TOML file with settings at {self.file}, found: {error}") from None
            result |= {name: (f"in {self.file}", value) for name, value in table.items()}
        for text in self.texts:
            name, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f"expected --set name=value, found {text!r}")
            try:
                result[name] = ("--set", json.loads(value))
            except ValueError:
                result[name] = ("--set", value)
        for name, value in self.options.items():
            result[name] = (self.labels.get(name, "--" + name.replace("_", "-")), value)
        return result

    def plain(self) -> Json:
        """Give the values unchecked, for a trainer whose settings nobody here knows; lists as tuples."""
        return {name: tuple(value) if isinstance(value, list) else value for name, (_, value) in self.values().items()}

    def changes(self, kind: type, current: Mapping[str, object] = _NONE) -> Json:
        """Give the checked values of what was set; nested records keep the rest of their current values."""
        return {
            name: _checked(kind, name, value, source, {**_default_values(kind), **current})
            for name, (source, value) in self.values().items()
        }

    def make(self, kind: type[C], **base: object) -> C:
        """Make a configuration from its own defaults, the command's, `base`, and what was set."""
        base = {**self.defaults, **base}
        values = {**base, **self.changes(kind, base)}
        missing = [item.name for item in fields(kind) if item.name not in {**_default_values(kind), **values}]
        if missing:
            names = ", ".join("--" + name.replace("_", "-") for name in missing)
            raise ConfigError(f"expected {names}, found neither the option nor a setting in --set or --config")
        return kind(**values)

    def apply(self, config: C, **options: object) -> C:
        """Change a configuration by what was set; `options` count as given on the command line where not None."""
        given = {name: value for name, value in options.items() if value is not None}
        settings = replace(self, options={**self.options, **given})
        return replace(config, **settings.changes(type(config), vars(config)))


def change(config: C, texts: Collection[str]) -> C:
    """Change a configuration by texts such as epochs=4."""
    return Settings(texts=tuple(texts)).apply(config)


def from_dict(kind: type[C], payload: Mapping[str, object]) -> C:
    """Read a configuration back from a run's folder."""
    values = {
        name: _checked(kind, name, value, "the run's config.json", _default_values(kind))
        for name, value in payload.items()
    }
    return kind(**values)


def _default_values(kind: type) -> Json:
    values: Json = {}
    for item in fields(kind):
        if item.default is not MISSING:
            values[item.name] = item.default
        elif item.default_factory is not MISSING:
            values[item.name] = item.default_factory()
    return values


def _checked(kind: type, name: str, value: object, source: str, current: Mapping[str, object]) -> Any:
    """Give a value as the field's type, or say which field, which type and which names there are."""
    from pydantic import TypeAdapter, ValidationError

    hints = get_type_hints(kind, include_extras=True)
    known = [item.name for item in fields(kind)]
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"expected a setting among {', '.join(sorted(known))}; found {name!r} ({source}){meant}")
    hint, before = hints[name], current.get(name)
    if is_dataclass(before) and not isinstance(before, type) and isinstance(value, Mapping):
        changed = {
            key: _checked(type(before), key, part, f"{source} {name}", vars(before)) for key, part in value.items()
        }
        return replace(before, **changed)
    try:
        # Strict JSON: 4 is a float, "4" is not a number, and a list is a tuple.
        return TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        like = f", such as {name}={json.dumps(before, default=vars)}" if before is not None else ""
        raise ConfigError(
            f"expected {name} as {_type_name(hint)}{like}; found {value!r} ({source}: {detail.lower()})"
        ) from None


def _type_name(hint: Any) -> str:
    """Write a type as a user knows it: int, float, text, true or false, a list of int, one of a, b."""
    if get_origin(hint) is Annotated:
        inner, *limits = get_args(hint)
        words = [f"at least {limit.ge}" for limit in limits if isinstance(limit, Ge)]
        words += [f"at most {limit.le}" for limit in limits if isinstance(limit, Le)]
        return " ".join([_type_name(inner), *words])
    if get_origin(hint) in (Union, UnionType):
        return " or ".join("null" if part is NoneType else _type_name(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"[list of {_type_name(get_args(hint)[0])}]"
    names = {int: "int", float: "float", bool: "true or false", str: "text"}
    return names.get(hint, "{record}")


Command = Callable[..., None]


def configured(
    *kinds: type,
    without: Collection[str] = (),
    labels: Mapping[str, str] = _NONE,
    defaults: Mapping[str, Any] = _NONE,
) -> Callable[[Command], Command]:
    """Give a command the options of config dataclasses, --set and --config; it is called with `settings`.

    A field that several dataclasses share becomes one option. `without` names fields that are no option, since the
    command has one of its own or finds the value out; a parameter of the command hides the field of its name.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = {name: item for name, item in signature.parameters.items() if name != "settings"}
        generated = {
            name: parameter
            for name, parameter in _parameters(kinds, labels, defaults).items()
            if name not in own and name not in without
        }
        generated |= {
            "config_file": inspect.Parameter("config_file", _KEYWORD, default=None, annotation=ConfigFile),
            "set_texts": inspect.Parameter("set_texts", _KEYWORD, default=None, annotation=SetTexts),
        }
        last = {name: own.pop(name) for name in ("as_json",) if name in own}

        @functools.wraps(command)
        def run(**values: Any) -> None:
            file, texts = values.pop("config_file"), values.pop("set_texts")
            given = {name: values.pop(name) for name in generated if name in values}
            options = {name: value for name, value in given.items() if value not in (None, [], ())}
            command(**values, settings=Settings(file, tuple(texts or ()), options, defaults, labels))

        parameters = [*own.values(), *generated.values(), *last.values()]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        return run

    return decorate


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameters(
    kinds: Collection[type], labels: Mapping[str, str], defaults: Mapping[str, object]
) -> dict[str, inspect.Parameter]:
    """Write one parameter a field that an option can hold; the value None stands for "not given"."""
    parameters: dict[str, inspect.Parameter] = {}
    shown: dict[str, Json] = {}
    helps: dict[str, str] = {}
    types: dict[str, tuple[Any, Json]] = {}
    for kind in kinds:
        hints, docs, values = get_type_hints(kind, include_extras=True), _field_docs(kind), _default_values(kind)
        for item in fields(kind):
            option = _option_type(hints[item.name])
            if option is not None:
                types.setdefault(item.name, option)
                helps.setdefault(item.name, docs.get(item.name, ""))
                shown.setdefault(item.name, {})[kind.__name__] = defaults.get(item.name, values.get(item.name))
    for name, (annotation, limits) in types.items():
        texts = {kind: _default_text(value) for kind, value in shown[name].items()}
        unlike = ", ".join(f"{text} ({kind})" for kind, text in texts.items() if text)
        default = next(iter(texts.values())) if len(set(texts.values())) == 1 else unlike
        flag = labels.get(name, "--" + name.replace("_", "-"))
        if annotation == (bool | None):
            flag = f"{flag}/--no-{flag[2:]}"
        info = typer.Option(flag, help=helps[name], show_default=default or False, rich_help_panel=PANEL, **limits)
        parameters[name] = inspect.Parameter(name, _KEYWORD, default=None, annotation=Annotated[annotation, info])
    return parameters


def _option_type(hint: object) -> tuple[Any, Json] | None:
    """Give what Typer reads for a field, with its limits; None where only --set and a file can say the value."""
    limits: Json = {}
    if get_origin(hint) in (Union, UnionType):
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        for limit in rest:
            limits |= {"min": limit.ge} if isinstance(limit, Ge) else {"max": limit.le}
    if get_origin(hint) is Literal:
        hint = str
    if hint in (int, float, bool, str):
        return hint | None, limits
    if get_origin(hint) is tuple and get_args(hint)[0] in (int, float, str):
        return list[get_args(hint)[0]] | None, limits  # type: ignore[misc]
    return None


def _default_text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None or value is False or value == {} else "on" if value is True else str(value)


def _field_docs(kind: type) -> dict[str, str]:
    """Read the docstrings below a dataclass's fields, those of its bases included."""
    docs: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if not is_dataclass(part):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(tree, ast.ClassDef)
        for line, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(below, ast.Expr):
                docs[line.target.id] = " ".join(ast.literal_eval(below.value).split())
    return docs
