"""A network as an ONNX graph: raw rows in, logits out, the fixed scaling inside.

Input `observation` (n, features x frames) float32, output `logits` (n, all heads side by side).
Masks and choosing stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from playproof.policies.network import layers
from playproof.policies.scaling import FLOOR, LIMIT, Scaling, parse

if TYPE_CHECKING:
    from playproof.policies.checkpoint import Card

OPSET = 18
ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu"}


class _Graph:
    """Nodes and constants in the order they are added; every node's output has a name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant; give its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node; give the name of its output."""
        from onnx import helper

        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def number(self, value: float) -> str:
        """Add a constant number."""
        return self.constant(np.asarray(value, np.float32))


def _scaled(graph: _Graph, x: str, scaling: Scaling) -> str:
    """Add the scaling; columns of each rule are computed for all and chosen by a constant mask."""
    width = len(scaling.names)
    taken, own = np.arange(width), np.ones(width, np.bool_)
    taken[scaling.ratios], own[scaling.ratios] = scaling.divisors, False
    below = graph.add(
        "Max", graph.add("Abs", graph.add("Gather", x, graph.constant(taken), axis=1)), graph.number(FLOOR)
    )
    x = graph.add("Where", graph.constant(own), x, graph.add("Div", x, below))
    units = np.ones(width, np.float32)
    units[scaling.curves] = scaling.units
    grown = graph.add("Add", graph.add("Div", graph.add("Abs", x), graph.constant(units)), graph.number(1.0))
    curve = graph.add("Mul", graph.add("Sign", x), graph.add("Log", grown))
    logarithm = graph.add("Log", graph.add("Max", x, graph.number(FLOOR)))
    for indices, value in ((scaling.curves, curve), (scaling.logs, logarithm)):
        chosen = np.zeros(width, np.bool_)
        chosen[indices] = True
        x = graph.add("Where", graph.constant(chosen), value, x)
    x = graph.add("Div", graph.add("Sub", x, graph.constant(scaling.centers)), graph.constant(scaling.spreads))
    return graph.add("Clip", x, graph.number(-LIMIT), graph.number(LIMIT))


def to_onnx(card: Card, weights: Mapping[str, NDArray[np.float32]]) -> bytes:
    """Write the network of a card and its parameters as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper

    frames = card.config.get("frames", 1)
    scaling = parse(card.features, tuple(card.scaling["rules"])).stacked(frames)
    graph = _Graph()
    x = _scaled(graph, "observation", scaling)
    for weight, bias in layers(weights, "trunk"):
        x = graph.add("Add", graph.add("MatMul", x, graph.constant(weight)), graph.constant(bias))
        x = graph.add(ACTIVATIONS[card.config.get("activation", "tanh")], x)
    heads = layers(weights, "head")
    out = graph.constant(np.concatenate([weight for weight, _ in heads], axis=1))
    bias = np.concatenate([bias for _, bias in heads]) + np.asarray(card.config.get("offsets", 0.0), np.float32)
    x = graph.add("Add", graph.add("MatMul", x, out), graph.constant(bias))
    graph.nodes.append(helper.make_node("Identity", [x], ["logits"]))
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["n", len(scaling.names)])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", sum(card.heads)])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=9,
        producer_name="playproof",
    )
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data
