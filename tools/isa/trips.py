"""How often the loops of nnvk's shaders go round, which a compiler can't say, and what products ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assembly import Loop

_CARRIED = 64
"""Vec4s of K after which sums of bytes as floats are added to integers."""
_SUMS_TOGETHER = 16
"""Vectors of the sums of K slices that are loaded together."""
_STAGED = "shared", "depthwise"
"""Tiles of gemm.comp whose workgroups share a stage of both operands."""
_LOADS_AGAIN = "attention_tile", "gemm_checksum", "depthwise_checksum"
"""Shaders that load the same for many invocations of a workgroup, though they have shared memory."""
_BLOCK = 32
"""Elements or vec4s of a row that are summed before the sum is added to others."""


def _up(a: float, b: float) -> int:
    return -int(-a // b)


def multiply_adds(dispatch: Mapping[str, Any]) -> int:
    """The multiply-adds of the operation itself; 0 for shaders other than GEMMs."""
    name, push = dispatch["shader"].split(".")[0], dispatch["push_constants"]
    if name == "gemm":
        constants, k = dispatch["constants"], _k_vec4s(dispatch) * 4
        of_depthwise = push["rows"] * k * constants.get("KERNEL_HEIGHT", 0) * constants.get("KERNEL_WIDTH", 0)
        return push["parts"] * push["rows"] * push["out_channels"] * k + of_depthwise
    if name == "fully_connected":
        return dispatch["groups"][0] * push["inputs"] * push["out_channels"]
    if name == "attention_tile":
        return dispatch["groups"][1] * push["rows"] * push["count"] * (push["depth"] + push["columns"])
    if name == "depthwise_conv2d":
        constants = dispatch["constants"]
        pixels = push["batch"] * push["out_height"] * push["out_width"]
        return pixels * push["out_channels"] * constants["KERNEL_HEIGHT"] * constants["KERNEL_WIDTH"]
    return 0


def split_k(dispatch: Mapping[str, Any]) -> int:
    """The workgroups that share a tile. The last one adds up the sums of all."""
    return int(dispatch["constants"].get("SPLIT_K", 1))


def shares(dispatch: Mapping[str, Any]) -> list[tuple[float, Mapping[str, Any]]]:
    """The products that a dispatch verifies, each with its share of the workgroups; others are one by themselves."""
    products, regions = dispatch.get("products", ()), dispatch["push_constants"].get("regions", 1)
    if not products:
        return [(1.0, dispatch)]
    ends = [*(product["first_region"] for product in products[1:]), regions]
    return [
        ((end - product["first_region"]) / regions, {**dispatch, "products": [product]})
        for product, end in zip(products, ends, strict=True)
    ]


def has_windows(dispatch: Mapping[str, Any]) -> bool:
    """Whether a workgroup with shared memory loads the same again and again.

    That is what windows that overlap have in common, the values of attention, which all rows of queries read, and the
    filters of checksums, which all rows or lines read.
    """
    family, *choice = dispatch["shader"].split(".")
    return family in _LOADS_AGAIN or (family == "gemm" and choice[1] == "depthwise")


def unread(dispatch: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of tensors that a dispatch is given and does not look at, but where something is rare."""
    return ("weights", "src") if dispatch["shader"].startswith("winograd_output.") else ()


def _k_vec4s(dispatch: Mapping[str, Any]) -> int:
    """The vec4s of K of a GEMM."""
    push = dispatch["push_constants"]
    return push["kernel_height"] * push["kernel_width"] * _up(push["depth"], 4)


def guess(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> bool:
    """Set how often each loop goes round, by what the dispatch was given; 1 where nothing is known: False."""
    name, push, constants = dispatch["shader"].split(".")[0], dispatch["push_constants"], dispatch["constants"]
    outer = [loop for loop in found if loop.parent is None]
    inner = [loop for loop in found if loop.parent is not None]
    if name == "gemm":
        _guess_product(dispatch, found)
    elif name == "fully_connected":
        slices = dispatch["local"][1]
        for loop in outer:
            loop.trips = _up(_up(push["inputs"], 4), slices) if loop.counts["vmem_read"] else slices - 1
    elif name == "depthwise_conv2d":
        _set(outer, _up(min(constants["TILE_WIDTH"], push["out_width"]), constants["AT_ONCE"]))
    elif name == "pool2d":
        if constants["LANES"] > 1:
            _set_folding(outer, constants["LANES"], push["filter_height"] * push["filter_width"], 4)
        else:
            _nest(found, [push["filter_height"], push["filter_width"]])
    elif name == "winograd_input":
        _set(outer, _up(_up(push["channels"], 4), constants["ACROSS"]))
        for loop in outer:
            if loop.counts["barrier"] or not loop.counts["vmem_read"]:
                loop.trips = 1  # shared memory is cleared
    elif name == "winograd_output":
        _set(found, 0)  # of tiles that are computed directly, which are rare
    elif name == "mean":
        _set_folding(outer, constants["LANES"], push["reduced"], 64)
        _set(inner, _up(min(64, _up(push["reduced"], constants["LANES"])), 4 if constants["LANES"] > 1 else 1))
    elif name == "gemm_checksum":
        return _guess_checksums(dispatch, found)
    elif name == "depthwise_checksum":
        return _guess_rectangles(dispatch, found)
    elif name == "attention_tile":
        return _guess_attention(dispatch, found)
    elif name in ("normalize_rows", "softmax_rows"):
        _set_rows(found, constants, push["length"])
    else:
        return not found
    return True


def _guess_checksums(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> bool:
    """Set the iterations over products, over rows, with those over results and inputs inside, and over check words."""
    constants, local, (product,) = dispatch["constants"], dispatch["local"][0], dispatch["products"]
    across = (1 << product["across"]) * constants["SLICES"]
    depth = _up(product["depth"], 4)
    loads = depth // (constants["SPAN"] // 4) if constants["SPAN"] >= 4 else depth
    words = product["words"] // 4 if constants["WIDE"] else product["words"]
    taps = (product["kernel"] >> 16) * (product["kernel"] & 0xFFFF)
    if constants["LINE_WORDS"]:
        taps, loads = product["kernel"] >> 16, _up((product["kernel"] & 0xFFFF) * product["depth"], 16)
    if constants["SIDE_BY_SIDE"]:
        of_inputs = [_up(loads, across)]
    else:
        lanes = min(loads, across)
        of_inputs = [_up(taps, across // lanes), _up(loads, lanes)]
        if constants["LINE_WORDS"]:
            of_inputs.reverse()
    passes = _up(product["region_rows"], (local >> product["across"]) * constants["ROWS"])
    of_checks = _up(product["region_checks"], 4 * local * constants["SLICES"])
    of_products = _up(dispatch["push_constants"]["products"] - 1, 4)
    return _set_all(found, [of_products, passes, _up(words, across), *of_inputs, of_checks])


def _guess_rectangles(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> bool:
    """Set the iterations over products, over check words, and over results and inputs."""
    constants, local, (product,) = dispatch["constants"], dispatch["local"][0], dispatch["products"]
    down, together = product["tiles"] >> 16, product["tiles"] & 0xFFFF
    height = min(product["tile_height"] * down, product["out_height"])
    width = min(product["tile_width"] * together, product["out_width"])
    lines = (height - 1) * constants["STRIDE_Y"] + (constants["KERNEL_HEIGHT"] - 1) * constants["DILATION_Y"] + 1
    tiles, columns, block = _up(width, product["tile_width"]), _up(width, constants["COLUMNS"]), product["block"]
    blocks = _up(product["words"], block) if block else 1
    words, inputs = product["words"] / blocks, _up(product["depth"], 4) / blocks
    of_checks = _up(tiles * _up(height, product["tile_height"]) * (block or words), 4 * local)
    items = words * height
    of_results = [_up(items, local), columns if items > local // 2 else _up(columns, local // items)]
    of_inputs = [_up(inputs * lines, local), columns]
    of_products = _up(dispatch["push_constants"]["products"] - 1, 4)
    return _set_all(found, [of_products, of_checks, *of_results, *of_inputs])


def _set_all(found: Sequence[Loop], trips: Sequence[float]) -> bool:
    """Set the iterations of all loops in their order; of none if there are others than these."""
    if len(found) != len(trips):
        return False
    for loop, count in zip(found, trips, strict=True):
        loop.trips = count
    return True


def _guess_attention(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> bool:
    """Set the iterations over keys, over stages, depth and values inside, over queries before, and over results."""
    constants, push, local = dispatch["constants"], dispatch["push_constants"], dispatch["local"][0]
    rows, team, across, together, steps = (constants[name] for name in ("ROWS", "TEAM", "ACROSS", "TOGETHER", "STEPS"))
    of_slice = _up(min(team, _up(push["count"], 4)), team // across)
    of_values = [of_slice // together - constants["AHEAD"], of_slice % together]
    inner = [loop for loop in found if loop.parent is not None]
    over_keys = next((loop.parent for loop in found if loop.parent is not None), None)
    if over_keys is None:
        return False
    for number, loop in enumerate(found):
        if loop.parent is None:
            before, behind = _up(rows * steps, local), _up(rows * across, local)
            loop.trips = (
                before if number < over_keys else behind if number > over_keys else _up(push["count"], 4 * team)
            )
    values = [loop for loop in inner if loop.counts["vmem_read"] and not loop.counts["lds_written"]]
    for loop, trips in zip(values, of_values, strict=False):
        loop.trips = trips
    for loop in inner:
        if loop not in values:
            stages = loop.counts["lds_written"]
            loop.trips = _up(steps, rows // 4) if stages else _up(min(steps, rows // 4), together)
    return True


def _guess_product(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> None:
    _, _, tile, way, sums = dispatch["shader"].split(".")[:5]
    if tile == "cooperative_matrix":
        _guess_matrices(dispatch, found)
        return
    vec4s = _up(_k_vec4s(dispatch), split_k(dispatch))
    outer = [loop for loop in found if loop.parent is None]
    main = outer
    if sums.startswith("split"):  # the last K slice adds up, in a loop that follows the main one and multiplies nothing
        main = [loop for loop in outer if loop.counts["products"] or loop.counts["integer_products"]][:1] or outer[:1]
        of_k_slice = dispatch["constants"]["ROWS"] // (dispatch["local"][1] if tile in _STAGED else 1)
        at_once = max(1, _SUMS_TOGETHER // (of_k_slice * dispatch["constants"]["VEC4S"]))
        _set([loop for loop in outer if loop not in main], split_k(dispatch) // at_once)
    within = [loop for loop in found if loop.parent is not None]
    if tile in _STAGED:
        _set(main, _up(vec4s, dispatch["constants"]["STAGE"]) - 1)  # the last stage is behind the loop
    elif tile == "subgroup":
        push = dispatch["push_constants"]
        _nest(found, [push["kernel_height"], push["kernel_width"], _up(push["depth"], 4)])
    else:
        vec4s = _up(vec4s, max(1, dispatch["constants"]["SPAN"] // 4))  # a round takes so many at once
        rounds = _up(vec4s, _CARRIED) if way == "float" else 1
        _set(main, rounds if within else rounds * _up(vec4s, rounds))
        _set(within, _up(vec4s, rounds))


def _guess_matrices(dispatch: Mapping[str, Any], found: Sequence[Loop]) -> None:
    """Set the iterations of the stages of K, of the K slices, and of the rows of sums that an invocation stores."""
    constants, push = dispatch["constants"], dispatch["push_constants"]
    chunk = 16 if dispatch["shader"].split(".")[1] == "q8" else 8
    stages = _up(push["kernel_height"] * push["kernel_width"] * _up(push["depth"], chunk), constants["STAGE"])
    pixels = _up(constants["M"], 4 * constants["SUBGROUP_SIZE"] // (constants["N"] * constants["ACROSS"]))
    at_once = max(1, _SUMS_TOGETHER // (constants["DOWN"] * pixels))
    for loop in found:
        if loop.counts["products"]:
            loop.trips = _up(stages, split_k(dispatch)) - 1  # the last stage is behind the loop
        elif loop.counts["vmem_written"]:  # rows of matrices, and pixels in them
            loop.trips = constants["DOWN"] if loop.parent is None else pixels
        elif loop.counts["vmem_read"]:
            loop.trips = split_k(dispatch) // at_once


def _set_folding(loops: Sequence[Loop], lanes: int, folded: int, at_once: int) -> None:
    """Set the iterations of a shared fold: each lane folds its share, and then the lanes fold their results."""
    for loop in loops:
        loop.trips = _up(_up(folded, lanes), at_once) if loop.counts["vmem_read"] else lanes.bit_length() - 1


def _set_rows(found: Sequence[Loop], constants: Mapping[str, int], length: int) -> None:
    """Set the iterations of loops over an invocation's part of a row, which it handles at once or in blocks."""
    own = _up(length, (4 if constants["VEC4S"] else 1) * (constants["LOCAL"] if constants["WIDE"] else 1))
    in_blocks = {loop.parent for loop in found}
    for number, loop in enumerate(found):
        if loop.parent is not None:
            loop.trips = min(own, _BLOCK)
        else:
            loop.trips = _up(own, _BLOCK) if number in in_blocks else own


def _set(loops: Sequence[Loop], trips: float) -> None:
    for loop in loops:
        loop.trips = trips


def _nest(found: Sequence[Loop], trips: Sequence[int]) -> None:
    """Loops in loops: the outermost takes the first of these."""
    for loop in found:
        depth, around = 0, loop.parent
        while around is not None:
            depth, around = depth + 1, found[around].parent
        loop.trips = trips[min(depth, len(trips) - 1)]
