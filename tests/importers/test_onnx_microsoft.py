"""Operators of onnxruntime's own, that its optimiser and its quantisation write, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_net import model, op
from onnx_oracle import LARGEST_SIGNED, check, operations

from nnvk.importers.onnx import OnnxImportError, load

F, F16 = np.float32, np.float16
STEPS = 1


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def whole(*shape: int, most: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, shape).astype(np.int32)


def steps(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> np.ndarray:
    least, largest = (-LARGEST_SIGNED, LARGEST_SIGNED) if dtype is np.int8 else (0, 255)
    return np.random.default_rng(seed).integers(least, largest + 1, shape).astype(dtype)


def compared(
    kind: str,
    feeds: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    names: str,
    outputs: str = "y",
    tolerance: float = 1e-5,
    steps: int = 0,
    **attributes: Any,
) -> None:
    """One node, by the names of its inputs, must agree."""
    node = op(kind, names, outputs, domain="com.microsoft", **attributes)
    wanted = [name for name in outputs.split() if name != "-"]
    net = model([node], {name: (one.dtype, one.shape) for name, one in feeds.items()}, wanted, constants)
    net.opset_import.add(domain="com.microsoft", version=1)
    check(net, feeds, tolerance=tolerance, steps=steps)


# --- transformers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_bias", [True, False])
def test_skip_layer_normalization(has_bias: bool) -> None:
    feeds = {"x": drawn(2, 3, 8), "skip": drawn(2, 3, 8, seed=1)}
    constants = {"gamma": drawn(8, seed=2), "beta": drawn(8, seed=3), "bias": drawn(8, seed=4)}
    names = "x skip gamma beta bias" if has_bias else "x skip gamma"
    compared("SkipLayerNormalization", feeds, constants, names, "y - - total", epsilon=1e-5)


def test_skip_simplified_layer_normalization() -> None:
    feeds = {"x": drawn(2, 3, 8), "skip": drawn(2, 3, 8, seed=1)}
    constants = {"gamma": drawn(8, seed=2), "bias": drawn(8, seed=4)}
    compared("SkipSimplifiedLayerNormalization", feeds, constants, "x skip gamma bias", "y - - total", epsilon=1e-5)


@pytest.mark.parametrize("has_segments", [True, False])
def test_embed_layer_normalization(has_segments: bool) -> None:
    feeds = {"ids": whole(2, 5, most=11), "segments": whole(2, 5, most=2, seed=1), "mask": whole(2, 5, most=2, seed=2)}
    constants = {name: drawn(rows, 8, seed=rows) for name, rows in (("words", 11), ("places", 7), ("kinds", 2))}
    constants |= {"gamma": drawn(8, seed=2), "beta": drawn(8, seed=3)}
    names = "ids segments words places kinds gamma beta mask"
    if not has_segments:
        del feeds["segments"]
        names = "ids - words places - gamma beta mask"
    compared("EmbedLayerNormalization", feeds, constants, names, "y lengths", epsilon=1e-12)


def test_a_query_whose_only_key_is_masked() -> None:
    """Keys behind it don't count still."""
    feeds = {"x": drawn(2, 5, 6), "mask": np.array([[0, 1, 1, 0, 0], [1, 1, 0, 1, 1]], np.int32)}
    constants = {"w": drawn(6, 24, seed=1), "b": drawn(24, seed=2)}
    compared("Attention", feeds, constants, "x w b mask", num_heads=2, unidirectional=1)


@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}, {"scale": 0.3}])
@pytest.mark.parametrize("has_mask", [True, False])
def test_attention(attributes: dict[str, Any], has_mask: bool) -> None:
    feeds = {"x": drawn(2, 5, 12), "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)}
    constants = {"w": drawn(12, 36, seed=1), "b": drawn(36, seed=2)}
    if not has_mask:
        del feeds["mask"]
    names = "x w b mask" if has_mask else "x w b"
    compared("Attention", feeds, constants, names, tolerance=3e-5, num_heads=3, **attributes)


def test_attention_of_values_of_another_size() -> None:
    constants = {"w": drawn(12, 32, seed=1), "b": drawn(32, seed=2)}
    attributes = {"num_heads": 2, "qkv_hidden_sizes": [12, 12, 8]}
    compared("Attention", {"x": drawn(1, 5, 12)}, constants, "x w b", tolerance=3e-5, **attributes)


@pytest.mark.parametrize("names", ["q k v", "q k v b", "q k v - mask", "q k v b - term"])
def test_multi_head_attention(names: str) -> None:
    feeds = {"q": drawn(2, 4, 12), "k": drawn(2, 6, 12, seed=1), "v": drawn(2, 6, 12, seed=2)}
    if "mask" in names:
        feeds["mask"] = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]], np.int32)
    if "term" in names:
        feeds["term"] = drawn(2, 3, 4, 6, seed=4)
    compared("MultiHeadAttention", feeds, {"b": drawn(36, seed=3)}, names, tolerance=3e-5, num_heads=3)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(turned: tuple[int, int]) -> None:
    first, second = ((2, 5, 3), (2, 3, 5))[turned[0]], ((2, 3, 4), (2, 4, 3))[turned[1]]
    feeds = {"a": drawn(*first), "b": drawn(*second, seed=1)}
    compared("FusedMatMul", feeds, {}, "a b", alpha=0.25, transA=turned[0], transB=turned[1])


def test_quick_gelu() -> None:
    compared("QuickGelu", {"x": drawn(3, 7)}, {}, "x", alpha=1.5)


@pytest.mark.parametrize("has_points", [True, False])
def test_matmul_n_bits(has_points: bool) -> None:
    size, units, block = 40, 6, 16
    constants = {
        "w": steps(units, 3, block // 2),
        "s": drawn(units * 3, seed=1),
        **({"p": steps(units * 2, seed=2)} if has_points else {}),
    }
    names = " ".join(["x", *constants])
    attributes = {"K": size, "N": units, "bits": 4, "block_size": block}
    compared("MatMulNBits", {"x": drawn(2, 3, size)}, constants, names, tolerance=1e-4, **attributes)


def test_zero_points_of_other_blocks_are_refused() -> None:
    constants = {"w": steps(6, 3, 8), "s": drawn(18), "z": steps(6 * 3)}
    node = op("MatMulNBits", "x w s z", "y", domain="com.microsoft", K=48, N=6, bits=4, block_size=16)
    net = model([node], {"x": (F, [1, 48])}, ["y"], constants)
    net.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(OnnxImportError, match="the zero points must be 6 x 2 of uint8, got 18"):
        load(net.SerializeToString())


def test_products_of_four_bits_with_a_bias() -> None:
    constants = {"w": steps(6, 2, 8), "s": np.abs(drawn(12, seed=1)), "b": drawn(6, seed=2)}
    attributes = {"K": 32, "N": 6, "bits": 4, "block_size": 16}
    compared("MatMulNBits", {"x": drawn(3, 32)}, constants, "x w s - - b", tolerance=1e-4, **attributes)


@pytest.mark.parametrize("has_points", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (1,)])
def test_rows_of_four_bits(shape: tuple[int, ...], has_points: bool) -> None:
    constants = {"w": steps(11, 24), "s": np.abs(drawn(11, 3, seed=1)), "z": steps(11, 2, seed=4)}
    names = "w i s z" if has_points else "w i s"
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
    feeds = {"i": whole(*shape, most=11)}
    compared("GatherBlockQuantized", feeds, constants, names, tolerance=1e-6, **attributes)


def test_weights_stay_4_bits() -> None:
    nodes = [
        op("GatherBlockQuantized", "t i ts", "x", domain="com.microsoft", block_size=16, bits=4, quantize_axis=1),
        op("MatMulNBits", "x w s", "y", domain="com.microsoft", K=48, N=6, bits=4, block_size=16),
    ]
    constants = {
        **{"t": steps(11, 24), "ts": np.abs(drawn(11, 3))},
        **{"w": steps(6, 3, 8), "s": np.abs(drawn(18, seed=1))},
    }
    net = model(nodes, {"i": (np.int32, [2, 3])}, ["y"], constants)
    net.opset_import.add(domain="com.microsoft", version=1)
    codes = operations(load(net.SerializeToString()))
    assert [code for code in codes if code != "RESHAPE"] == [
        "BLOCK_QUANTIZED_EMBEDDING_LOOKUP",
        "BLOCK_QUANTIZED_FULLY_CONNECTED",
    ]


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_rows_of_types_of_four_bits(dtype: str) -> None:
    pytest.importorskip("ml_dtypes")
    levels = (steps(11, 48) % 16).astype(np.int8) - (8 if dtype == "int4" else 0)
    points = levels[:, :3].copy()
    constants = {"w": levels.astype(dtype), "s": np.abs(drawn(11, 3, seed=1)), "z": points.astype(dtype)}
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
    feeds = {"i": whole(2, 3, most=11)}
    for names in ("w i s", "w i s z"):
        compared("GatherBlockQuantized", feeds, constants, names, tolerance=1e-6, **attributes)


def test_what_was_before_is_refused() -> None:
    node = op("Attention", "x w b - past", "y", domain="com.microsoft", num_heads=1)
    inputs = {"x": (F, [1, 2, 4]), "past": (F, [2, 1, 1, 3, 4])}
    net = model([node], inputs, ["y"], {"w": drawn(4, 12), "b": drawn(12)})
    net.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(OnnxImportError, match=r"what was before.*\(input 4\) is unknown here"):
        load(net.SerializeToString())


FUSED: dict[str, dict[str, Any]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "LeakyRelu": {"activation_params": [0.2]},
    "Clip": {"activation_params": [-0.5, 1.5]},
    "HardSigmoid": {"activation_params": [0.3, 0.4]},
}


@pytest.mark.parametrize("activation", FUSED)
@pytest.mark.parametrize("has_term", [True, False])
def test_fused_conv(activation: str, has_term: bool) -> None:
    feeds = {"x": drawn(1, 3, 6, 5), "term": drawn(1, 4, 4, 3, seed=2)}
    if not has_term:
        del feeds["term"]
    constants = {"w": drawn(4, 3, 3, 3, seed=1), "b": drawn(4, seed=3)}
    names = "x w b term" if has_term else "x w b"
    compared("FusedConv", feeds, constants, names, activation=activation, **FUSED[activation])


def test_a_normalization_behind_an_activation_stays_there() -> None:
    nodes = [
        op("FusedConv", "x w", "c", domain="com.microsoft", activation="Relu"),
        op("BatchNormalization", "c s b m v", "y"),
    ]
    constants = {"w": drawn(4, 3, 1, 1), **{name: drawn(4, seed=seed) for seed, name in enumerate("sbm")}}
    net = model(nodes, {"x": (F, [1, 3, 5, 4])}, ["y"], {**constants, "v": np.full(4, 0.5, F)})
    net.opset_import.add(domain="com.microsoft", version=1)
    check(net, {"x": drawn(1, 3, 5, 4)})


# --- quantised -----------------------------------------------------------------------------------------------


def quantisation(*scales: float, dtype: Any = np.uint8) -> dict[str, np.ndarray]:
    """Constants s0, z0, s1, z1 and so on."""
    found: dict[str, np.ndarray] = {}
    for number, scale in enumerate(scales):
        found[f"s{number}"] = np.array(scale, F)
        found[f"z{number}"] = np.array(3 + number, dtype)
    return found


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_concat(dtype: Any) -> None:
    feeds = {"a": steps(2, 3, 4, dtype=dtype), "b": steps(2, 5, 4, dtype=dtype, seed=1)}
    constants = quantisation(0.05, 0.1, 0.03, dtype=dtype)
    compared("QLinearConcat", feeds, constants, "s0 z0 a s1 z1 b s2 z2", steps=STEPS, axis=1)


def test_qlinear_average_pool() -> None:
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    feeds, constants = {"x": steps(1, 3, 7, 5)}, quantisation(0.05, 0.04)
    compared("QLinearAveragePool", feeds, constants, "x s0 z0 s1 z1", steps=STEPS, **attributes)
    compared("QLinearAveragePool", feeds, constants, "x s0 z0 s1 z1", steps=STEPS, count_include_pad=1, **attributes)


@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 11)])
def test_qlinear_softmax(axis: int, opset: int) -> None:
    constants = {**quantisation(0.05, 1 / 256), "z1": np.array(0, np.uint8)}
    compared("QLinearSoftmax", {"x": steps(2, 5, 3)}, constants, "x s0 z0 s1 z1", steps=STEPS, axis=axis, opset=opset)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("has_scale", [True, False])
def test_qgemm(turned: int, has_scale: bool) -> None:
    constants = quantisation(0.02, 0.01, 0.3)  # no result is clamped, and the bias is up to 6
    constants |= {"w": steps(*((4, 9) if turned else (9, 4)), seed=1), "c": whole(4, most=30_000, seed=2)}
    names = "x s0 z0 w s1 z1 c" + (" s2 z2" if has_scale else "")
    compared("QGemm", {"x": steps(3, 9)}, constants, names, steps=STEPS, transB=turned)


def test_attention_with_keys_of_before_is_refused() -> None:
    names = {name: (F, shape) for name, shape in zip("qkvp", [(1, 4, 12)] * 3 + [(1, 3, 2, 4)], strict=True)}
    node = op("MultiHeadAttention", "q k v - - - p", "y", domain="com.microsoft", num_heads=3)
    net = model([node], names, ["y"])
    net.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(OnnxImportError, match=r"what was before \(input 6\) is unknown here"):
        load(net.SerializeToString())


def test_products_of_bytes_with_a_vector_are_refused() -> None:
    constants = {"b": steps(7), "t": np.array(0.03, F)}
    node = op("DynamicQuantizeMatMul", "x b t", "y", domain="com.microsoft")
    net = model([node], {"x": (F, (3, 7))}, ["y"], constants)
    net.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(OnnxImportError, match=r"its inputs must be matrices, got shapes \[3, 7\] and \[7\]"):
        load(net.SerializeToString())


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_qgemm_of_a_turned_matrix_times_a_number(alpha: float) -> None:
    constants = quantisation(0.02, 0.01, 0.6)
    constants |= {"w": steps(9, 4, seed=1), "c": whole(4, most=30_000, seed=2)}
    for turned, shape in enumerate([(3, 9), (9, 3)]):
        compared(
            "QGemm", {"x": steps(*shape)}, constants, "x s0 z0 w s1 z1 c s2 z2", steps=STEPS, alpha=alpha, transA=turned
        )


# --- products of bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes", [((4, 7), (7, 5)), ((2, 3, 4, 7), (7, 5)), ((2, 4, 7), (2, 7, 5)), ((1, 2500), (2500, 3))], ids=str
)
@pytest.mark.parametrize("types", [(np.uint8, np.int8), (np.uint8, np.uint8)])
@pytest.mark.parametrize("names", ["a b s t", "a b s t u v", "a b s t u v c", "a b s t - v c", "a b s t - - c"])
def test_product_of_bytes(names: str, types: tuple[Any, Any], shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    columns = shapes[1][-1]
    arrays = {
        "a": steps(*shapes[0], dtype=types[0]),
        "b": steps(*shapes[1], dtype=types[1], seed=1),
        "s": np.array(0.02, F),
        "t": np.array(0.03, F) if len(shapes[1]) > 2 else np.linspace(0.01, 0.05, columns, dtype=F),
        "u": np.array(17, types[0]),
        "v": np.array(3, types[1]) if len(shapes[1]) > 2 else np.arange(columns).astype(types[1]),
        "c": drawn(columns),
    }
    used = {name: arrays[name] for name in names.split() if name != "-"}
    constants = {name: array for name, array in used.items() if name != "a"}
    compared("MatMulIntegerToFloat", {"a": arrays["a"]}, constants, names)
    compared("MatMulIntegerToFloat", used, {}, names)


@pytest.mark.parametrize(
    "x",
    [drawn(4, 7), drawn(2, 3, 7), np.zeros((2, 7), F), 3 + drawn(2, 7) / 9, drawn(2, 7) / 9 - 3],
    ids=lambda x: str(x.shape),
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("names", ["x b t", "x b t v", "x b t v c", "x b t - c"])
def test_product_of_what_becomes_bytes(names: str, dtype: Any, x: np.ndarray) -> None:
    arrays = {"x": x, "b": steps(7, 5, dtype=dtype), "t": np.array(0.03, F), "v": np.array(3, dtype), "c": drawn(5)}
    used = {name: arrays[name] for name in names.split() if name != "-"}
    constants = {name: array for name, array in used.items() if name != "x"}
    compared("DynamicQuantizeMatMul", {"x": x}, constants, names)
    compared("DynamicQuantizeMatMul", used, {}, names)


# --- rotary embeddings and shared heads ----------------------------------------------------------------------


def caches(count: int, pairs: int) -> dict[str, np.ndarray]:
    angles = np.arange(count)[:, np.newaxis] / 10 ** (np.arange(pairs) / pairs)
    return {"cos": np.cos(angles).astype(F), "sin": np.sin(angles).astype(F)}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_rotary_embedding(is_first: bool, is_split: bool, interleaved: int) -> None:
    places = np.array([3]) if is_first else np.array([[4, 1, 0, 9, 7], [0, 1, 2, 3, 11]])
    feeds = {"x": drawn(2, 3, 5, 8) if is_split else drawn(2, 5, 24), "at": places}
    compared("RotaryEmbedding", feeds, caches(12, 4), "x at cos sin", tolerance=2e-6, interleaved=interleaved)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_of_a_part(interleaved: int) -> None:
    feeds = {"x": drawn(1, 5, 24), "at": np.array([0])}
    attributes = {"interleaved": interleaved, "num_heads": 3, "rotary_embedding_dim": 4}
    compared("RotaryEmbedding", feeds, caches(12, 2), "x at cos sin", tolerance=2e-6, **attributes)


@pytest.mark.parametrize("before", [0, 6])
@pytest.mark.parametrize(
    "attributes", [{}, {"scale": 0.3}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}]
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_group_query_attention(is_packed: bool, attributes: dict[str, Any], before: int) -> None:
    compare_shared_heads(before, is_packed=is_packed, **attributes)


@pytest.mark.parametrize("attributes", [{"local_window_size": 3}, {"softcap": 0.7}])
def test_windows_and_caps(attributes: dict[str, Any]) -> None:
    compare_shared_heads(4, is_packed=False, **attributes)


@pytest.mark.parametrize("shared", [1, 3])
@pytest.mark.parametrize("is_packed", [False, True])
def test_numbers_of_shared_heads(is_packed: bool, shared: int) -> None:
    compare_shared_heads(0, is_packed=is_packed, heads=6, shared=shared)


def compare_shared_heads(before: int, *, is_packed: bool, heads: int = 4, shared: int = 2, **attributes: Any) -> None:
    length, batches = (1 if before else 5), 2
    feeds = {"q": drawn(batches, length, 16 * (heads + 2 * shared * is_packed))}
    if not is_packed:
        feeds |= {name: drawn(batches, length, 16 * shared, seed=seed) for seed, name in enumerate("kv", 1)}
    if before:
        feeds |= {"pk": drawn(batches, shared, before, 16, seed=3), "pv": drawn(batches, shared, before, 16, seed=4)}
    constants = {
        "last": np.full(batches, before + length - 1, np.int32),
        "all": np.array([before + length], np.int32),
        **(caches(16, 8) if "do_rotary" in attributes else {}),
    }
    names = [name if name in {**feeds, **constants} else "-" for name in ("q", "k", "v", "pk", "pv", "last", "all")]
    names += ["cos", "sin"] if "do_rotary" in attributes else []
    attributes |= {"num_heads": heads, "kv_num_heads": shared}
    compared("GroupQueryAttention", feeds, constants, " ".join(names), "y pk2 pv2", tolerance=1e-5, **attributes)


def test_lengths_of_shared_heads_must_be_known() -> None:
    inputs = {name: (F, (1, 3, size)) for name, size in (("q", 32), ("k", 16), ("v", 16))}
    inputs |= {"last": (np.int32, (1,)), "all": (np.int32, (1,))}
    node = op(
        "GroupQueryAttention", "q k v - - last all", "y pk pv", domain="com.microsoft", num_heads=4, kv_num_heads=2
    )
    net = model([node], inputs, ["y"])
    net.opset_import.add(domain="com.microsoft", version=1)
    with pytest.raises(OnnxImportError) as error:
        load(net.SerializeToString())
    assert error.value.unknown == ("all",)
    load(net.SerializeToString(), constants={"all": np.array([3], np.int32)})
    with pytest.raises(OnnxImportError, match="must be 3 long"):
        load(net.SerializeToString(), constants={"all": np.array([2], np.int32)})
