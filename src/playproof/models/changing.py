"""Promote and roll back as every caller does it: gate, compare-and-swap, then whoever wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from playproof.errors import PlayproofError
from playproof.models.gates import ask_gate
from playproof.models.hooks import HookResult, call_hooks, read_hooks
from playproof.models.registry import ModelVersion, PointerChange, Registry


@dataclass(frozen=True)
class ChangeReport:
    """A change that was made, and who was told."""

    change: PointerChange
    hooks: tuple[HookResult, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Give what went wrong with hooks; the change stands nevertheless."""
        return tuple(f"{item.hook}: {item.problem}" for item in self.hooks if item.problem is not None)


def promote(
    registry: Registry, version: ModelVersion, alias: str, *, who: str, why: str, report: Path | None = None
) -> ChangeReport:
    """Ask the alias's gate and move the pointer, if nobody else moved it while the gate was asked."""
    pointer = registry.pointer(version.name, alias)
    registry.open(version)
    ground = ask_gate(registry, version, pointer, report, registry.clock())
    change = registry.promote(
        version.name, version.version, alias, who=who, why=why, ground=ground, replaces=pointer.generation
    )
    return ChangeReport(change, _tell(change, registry))


def rollback(registry: Registry, name: str, alias: str, *, who: str, why: str) -> ChangeReport:
    """Go back to what stood before; nothing blocks it, a broken configuration of hooks neither."""
    change = registry.rollback(name, alias, who=who, why=why)
    return ChangeReport(change, _tell(change, registry))


def _tell(change: PointerChange, registry: Registry) -> tuple[HookResult, ...]:
    try:
        hooks = read_hooks(registry.folder.parent)
    except PlayproofError as error:
        return (HookResult("playproof.toml", str(error)),)
    return call_hooks(hooks, change)
