"""From a model and its inputs' shapes to a `Plan`: kernels choose shaders, then memory and barriers are planned."""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from nnvk.base.errors import NnapiError
from nnvk.base.extents import has_extents
from nnvk.base.settings import settings
from nnvk.driver.vulkan.graph.builder import NeedsValue, build, needs_value
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.node import lower as lower_node
from nnvk.driver.vulkan.lowering.verification import Verifier, compare_outputs, copy_inputs_again
from nnvk.driver.vulkan.planning import command_passes, passes, tables
from nnvk.driver.vulkan.planning.autotune_results import AutotuneResults
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.planning.command_passes import Rewritten
from nnvk.driver.vulkan.planning.concurrent_lifetimes import Lifetimes, prolonged
from nnvk.driver.vulkan.planning.family import PlanFamilies
from nnvk.driver.vulkan.planning.lowered import Lowered
from nnvk.driver.vulkan.planning.memory_plan import Block, Placements, most_alive, place, place_constants
from nnvk.driver.vulkan.planning.plan import Address, Flag, Plan, Verification, addresses_of
from nnvk.driver.vulkan.planning.plan_folder import plan_folder
from nnvk.driver.vulkan.planning.support import refuse, support
from nnvk.driver.vulkan.shaders.commands import Choice, Dispatch, Storage, TensorRef
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import FUSIONS, MAY_CHANGE_BITS, Pass
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile
from nnvk.hal import MemoryUse
from nnvk.ops.call import Call, UnknownValue
from nnvk.types.model import Lifetime, Model
from nnvk.types.operand import Shape
from nnvk.types.request import PrepareOptions, Redundancy
from nnvk.types.template import Holds, ModelTemplate, sizes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The properties that a plan depends on besides the model, the shapes of its inputs, and the device."""

    refuse: Callable[[Call], str | None] = lambda _: None
    """The reason why another device has to run a call whose shapes are known, or None."""
    values: Mapping[int, np.ndarray] = field(default_factory=dict)
    """The values of inputs that are looked at, by operand."""
    autotune_results: Mapping[str, str] = field(default_factory=dict)
    """The candidates that are preferred, by tuning key."""
    observe: passes.Observe | None = None
    """A function that gets the text of the model after each pass."""
    quick: bool = False
    """Whether candidates that drivers compile quickly are preferred."""
    other_strategies: bool = False
    """Whether other candidates are taken than without this."""
    redundancy: Redundancy = Redundancy.NONE
    """The computations besides those of the results."""
    together: bool = True
    """Whether verifications share dispatches."""


PLAIN = PlanOptions()
"""The options of a plan by the cost model alone."""


class Planner:
    """Plans models for a device, of which no more need be there than its profile."""

    def __init__(self, profile: DeviceProfile, library: ShaderLibrary, version: str) -> None:
        self.profile = replace(profile, left_out=frozenset(library.left_out))
        """The properties of the device that plans depend on."""
        self.library = library
        """The compiled shaders."""
        self.autotune_results = AutotuneResults(version, self.profile, library)
        """The ways that were measured to be the fastest."""
        self._version = version
        self._support = weakref.WeakKeyDictionary[Model, list[str | None]]()
        self._support_by_template = weakref.WeakKeyDictionary[ModelTemplate, list[tuple[Holds, list[str | None]]]]()

    def plan(
        self,
        model: Model,
        shapes: Sequence[Shape],
        options: PrepareOptions,
        values: Mapping[int, np.ndarray] | None = None,
    ) -> Plan:
        """The plan for these input shapes, from a cache where they follow from the model.

        ``values`` are those of inputs that are looked at. Raises `NeedsValue` where others are. Plans by other
        strategies are rare, and are not kept.
        """
        found = self._of_family(model, shapes, options) if options.cache is None and not values else None
        if found is not None:
            return found
        follows = all(type_.is_fully_specified for type_ in model.input_types()) and not values
        kept = self._cache(model, options) if follows and not options.other_strategies else None
        if kept is not None:
            plan = kept.load(model, shapes, self.profile, self.library)
            if plan is not None and all(self._stands(choice) for choice in plan.choices):
                return plan
        others, redundancy = options.other_strategies, options.redundancy
        wanted = replace(self._options, values=values or {}, other_strategies=others, redundancy=redundancy)
        plan = self.lower(model, shapes, wanted)
        if kept is not None:
            kept.store(plan)
        return plan

    def _of_family(self, model: Model, shapes: Sequence[Shape], options: PrepareOptions) -> Plan | None:
        """The plan by that of another size; None for the first size, and for plans of other kinds."""
        if options.families is None or options.other_strategies or options.redundancy:
            return None

        def lower_any(model: Model, shapes: Sequence[Shape]) -> Lowered:
            return lowered(model, shapes, self.profile, self.library, self._options)

        families = options.families.setdefault((self, model.operations), PlanFamilies())
        found = families.lowered(model, shapes, lower_any, self._stands)
        return None if found is None else placed(found, model, self.profile, families.placements)

    def _cache(self, model: Model, options: PrepareOptions) -> PlanCache | None:
        """The cache of a model: the application's, or else the user's, if the user's keeps such plans."""
        if options.cache is not None:
            return PlanCache(options.cache, self._key(model, options))
        folder = plan_folder(model)
        return None if folder is None else folder.cache(self._key(model, options))

    def _key(self, model: Model, options: PrepareOptions) -> dict[str, str]:
        return key_of(self._version, self.profile, self.library, model, options.redundancy)

    @property
    def _options(self) -> PlanOptions:
        """The options that plans for the device have."""
        return PlanOptions(refuse=self.refuse, autotune_results=self.autotune_results.known)

    def lower(self, model: Model, shapes: Sequence[Shape], options: PlanOptions = PLAIN) -> Plan:
        """A new plan. The device says which calls it refuses."""
        return lower(model, shapes, self.profile, self.library, replace(options, refuse=self.refuse))

    def quick_plan(
        self,
        model: Model,
        shapes: Sequence[Shape],
        values: Mapping[int, np.ndarray] | None,
        *,
        redundancy: Redundancy = Redundancy.NONE,
    ) -> Plan | None:
        """A plan that drivers compile more quickly than the one of `plan`; None if that one has the same candidates."""
        wanted = replace(self._options, values=values or {}, quick=True, redundancy=redundancy)
        lowered = self.lower(model, shapes, wanted)
        return None if all(self._stands(choice) for choice in lowered.choices) else lowered

    def _stands(self, choice: Choice) -> bool:
        """Whether what was chosen for a plan would be chosen again."""
        return choice.chosen == self.autotune_results.known.get(choice.tuning_key, choice.candidates[0])

    def avoid_candidate(self, plan: Plan, dispatch: Dispatch) -> str:
        """Choose another candidate from now on for what a dispatch of a plan computes. Returns what is done, for logs.

        That is the candidate with the lowest estimated time among those of another kind behind the present one, or
        else the one behind it. Nothing is done if the computation has no more candidates, or the plan is from a file.
        """
        same = {
            position
            for position, command in enumerate(plan.commands)
            if isinstance(command, Dispatch)
            and (command.shader, command.specialization) == (dispatch.shader, dispatch.specialization)
        }
        concerned = [choice for choice in plan.choices if not same.isdisjoint(choice.commands)]
        fewest = min((len(choice.commands) for choice in concerned), default=0)  # others decide on larger parts
        instead: dict[str, str] = {}
        for choice in concerned:
            if len(choice.commands) > fewest:
                continue
            behind = choice.candidates[choice.candidates.index(choice.chosen) + 1 :]
            kind = choice.chosen.split()[0]
            other = next((candidate for candidate in behind if candidate.split()[0] != kind), *behind[:1] or (None,))
            if other is not None:
                instead[choice.tuning_key] = other
        if not instead:
            return "there is no other candidate for it"
        self.autotune_results.add(instead)
        return f"next time it is replaced by {', '.join(sorted(set(instead.values())))}"

    def describe(self, model: Model) -> list[str]:
        """For each operation what was chosen, and by what, where there are several candidates.

        Empty where that is known at execution alone.
        """
        descriptions = [""] * len(model.operations)
        plan, autotune_results = self._known_plan(model), self.autotune_results.known
        for choice in () if plan is None else plan.choices:
            reason = "measured" if autotune_results.get(choice.tuning_key) == choice.chosen else "by its cost"
            said = f"{choice.chosen} ({reason})"
            before = descriptions[choice.operation]
            if said not in before:
                descriptions[choice.operation] = f"{before}; {said}" if before else said
        return descriptions

    def describe_memory(self, model: Model) -> MemoryUse | None:
        """The memory of activations; None where it is known at execution alone."""
        plan = self._known_plan(model)
        return None if plan is None else MemoryUse(sum(plan.pages[Storage.ARENA]), plan.most_alive)

    def _known_plan(self, model: Model) -> Plan | None:
        """The plan of a model for which that follows from the model; None for such as have late values, say."""
        types = model.input_types()
        if all(type_.is_fully_specified for type_ in types):
            with suppress(NnapiError, NeedsValue, KeyError):  # KeyError: control flow has no kernel
                return self.lower(model, [type_.dimensions for type_ in types], self._options)
        return None

    def refuse(self, call: Call) -> str | None:
        """Why no shader can run a call; None where one can, and where that follows from what is yet to come."""
        return refuse(call, self.profile, self.library)

    def support(self, model: Model) -> list[str | None]:
        """For each operation why no shader can run it; None where one can, as far as that is known."""
        known = self._support.get(model)
        if known is None:
            known = self._support[model] = self._new_support(model)
        return known

    def _new_support(self, model: Model) -> list[str | None]:
        """The answers for a model, of which those of a template have the same as long as guards hold."""
        sizes = sizes_of(model)
        if sizes is None:
            return support(model, self.profile, self.library)
        kept = self._support_by_template.setdefault(sizes.template, [])
        for holds, answers in kept:
            if holds(sizes.numbers):
                return answers
        holds, answers = sizes.template.decided(model, lambda opened: support(opened, self.profile, self.library))
        kept.append((holds, answers))
        return answers


def lower(
    model: Model,
    input_shapes: Sequence[Shape],
    profile: DeviceProfile,
    library: ShaderLibrary,
    options: PlanOptions = PLAIN,
) -> Plan:
    """Lower every operation and plan memory.

    Raises `NeedsValue` where the values of other inputs than ``options.values`` are looked at. OP_FAILED: shapes
    contradict each other (`registry.at_execution`), or ``options.refuse`` refuses a call: another device may do better.
    """
    try:
        return placed(lowered(model, input_shapes, profile, library, options), model, profile)
    except tables.ApartError:  # the tensors of verifications that share a dispatch don't lie in a page
        return placed(lowered(model, input_shapes, profile, library, replace(options, together=False)), model, profile)


def lowered(
    model: Model, input_shapes: Sequence[Shape], profile: DeviceProfile, library: ShaderLibrary, options: PlanOptions
) -> Lowered:
    """`lower` before tensors are placed."""

    def attempt(model: Model, profile: DeviceProfile) -> Lowered:
        g = Lowering(
            profile,
            library,
            options.autotune_results,
            relaxed=model.relaxed,
            quick=options.quick,
            other_strategies=options.other_strategies,
            redundancy=options.redundancy,
            reproducible=model.reproducible,
        )
        return _lowered(g, model, input_shapes, options)

    try:
        return attempt(model, profile)
    except AvoidedShader:
        # Each operation has a shader by itself, or it would have been refused: it is float16, or operations that are
        # computed together, that need the one to avoid.
        profile = replace(profile, disabled_passes=profile.disabled_passes | FUSIONS)
        return attempt(replace(model, relaxed=False), profile)


def _lowered(g: Lowering, model: Model, input_shapes: Sequence[Shape], options: PlanOptions) -> Lowered:
    """`lowered`, which raises AvoidedShader where this way needs a shader variant that plans have to do without."""
    g.is_traced = any(map(has_extents, (*input_shapes, *(each.type.dimensions for each in model.operands))))
    inputs = [
        None
        if model.operands[index].lifetime is Lifetime.NO_VALUE
        else g.input(index, math.prod(shape) * model.operands[index].type.dtype.itemsize)
        for index, shape in zip(model.inputs, input_shapes, strict=True)
    ]
    if g.redundancy:
        copy_inputs_again(g, model, input_shapes)
    refuse, observe = options.refuse, options.observe
    graph, shapes = build(model, input_shapes, options.values, lambda call: refuse(call) if _runs(call) else None)
    # Operations that are computed twice are so by themselves.
    profile = g.device.without(Pass.DEPTHWISE) if g.redundancy is Redundancy.DUPLICATION else g.device
    if g.reproducible:
        profile = replace(profile, disabled_passes=profile.disabled_passes | MAY_CHANGE_BITS)
    verifies = g.redundancy is Redundancy.CHECKSUMS
    context = passes.Context(profile, model.relaxed, g.intermediate, g.choose, refuse, verifies)
    with np.errstate(all="ignore"):  # multipliers of extreme scales saturate
        graph, applied = passes.run(graph, context, settings().verify_graph, observe)
        g.applied.update(applied)
        g.users = Counter(tensor.index for node in graph.nodes for tensor in node.inputs)
        g.writers = {index: place for place, each in enumerate(model.operations) for index in each.outputs}
        verifier = Verifier(g, graph.nodes, model.outputs, together=options.together) if g.redundancy else None
        for node in graph.nodes:
            g.operation, g.fused = node.operation, tuple(sorted(node.fused))
            try:
                if _runs(node.call):
                    lower_node(node, g)
                    if verifier is not None:
                        verifier.follow(node)
            except UnknownValue as unknown:
                raise needs_value(model, node.operation, unknown) from unknown
        if verifier is not None:
            verifier.finish()
    outputs = [
        g.output(index, math.prod(shapes[index]) * model.operands[index].type.dtype.itemsize) for index in model.outputs
    ]
    if g.redundancy:
        compare_outputs(g, model, shapes, outputs)
    return _rewritten(g, inputs, outputs, tuple(shapes[index] for index in model.outputs), observe)


def _rewritten(
    g: Lowering,
    inputs: Sequence[TensorRef | None],
    outputs: Sequence[TensorRef | None],
    output_shapes: tuple[Shape, ...],
    observe: passes.Observe | None,
) -> Lowered:
    """The commands after all passes on them."""
    commands, parts = command_passes.run(g, observe)
    return Lowered(
        tuple(each.command for each in commands),
        parts,
        tuple(inputs),
        tuple(outputs),
        output_shapes,
        tuple(g.constants),
        tuple(g.flags),
        dict(g.counts),
        tuple(g.entropy),
        tuple(_moved(g.choices, commands)),
        tuple(g.tables),
        g.difference,
        tuple(g.comparisons),
        g.checksums,
        {each: g.applied[each] for each in Pass},
    )


def _runs(call: Call) -> bool:
    """Whether a kernel has to run for a call: its outputs have elements, or it checks data all the same."""
    return kernels()[call.code].checks_data or any(output.size for output in call.outputs)


def placed(lowered: Lowered, model: Model, device: DeviceProfile, known: Placements | None = None) -> Plan:
    """Place all tensors that commands touch, and find the barriers. `tables.ApartError`: see `tables.fill`.

    ``known`` has the placements for other sizes.
    """
    commands, parts = lowered.commands, lowered.parts
    addresses, pages, most = _places(_lifetimes(lowered, device), device, known)
    parts = {tensor: part for tensor, part in parts.items() if part.whole.number in addresses}
    addresses |= addresses_of(parts, addresses)
    tables.fill(lowered.tables, commands, addresses)

    def address(tensor: TensorRef | None) -> Address | None:
        return addresses[tensor.number] if tensor is not None and tensor.nbytes else None

    return Plan(
        commands,
        barriers(commands, addresses, by_buffer=device.barriers_by_buffer),
        addresses,
        pages,
        tuple((addresses[tensor.number], data) for tensor, data in lowered.constants if tensor.number in addresses),
        tuple(map(address, lowered.inputs)),
        tuple(map(address, lowered.outputs)),
        lowered.output_shapes,
        tuple(
            Flag(addresses[tensor.number], f"{model.operations[operation]}: {assertion}")
            for tensor, operation, assertion in lowered.flags
        ),
        tuple(address(lowered.counts.get(index)) for index in model.outputs) if lowered.counts else (),
        tuple(addresses[tensor.number] for tensor in lowered.entropy),
        lowered.choices,
        {tensor.number: part.whole.number for tensor, part in parts.items()},
        most,
        None
        if lowered.difference is None
        else Verification(addresses[lowered.difference.number], lowered.comparisons, lowered.checksums),
        lowered.applied,
    )


def _lifetimes(lowered: Lowered, device: DeviceProfile) -> Lifetimes:
    """The positions of the first and the last command that use each tensor.

    Tensors that the host reads or writes, and constants, are used before the first and after the last command.
    """
    commands, parts = lowered.commands, lowered.parts
    lifetimes: Lifetimes = {}
    for position, command in enumerate(commands):
        for tensor in (*command.reads, *command.writes):
            whole = parts[tensor].whole if tensor in parts else tensor
            first, _ = lifetimes.get(whole, (position, position))
            lifetimes[whole] = (first, position)
    if not device.is_cpu:
        lifetimes = prolonged(commands, parts, lifetimes)
    reported = *(flag for flag, _, _ in lowered.flags), *lowered.counts.values(), lowered.difference
    exchanged = *lowered.inputs, *lowered.outputs, *reported, *lowered.entropy
    constants = (tensor for tensor, _ in lowered.constants if tensor in lifetimes)
    always = -1, len(commands)
    return lifetimes | {tensor: always for tensor in (*exchanged, *constants) if tensor is not None}


def _places(
    lifetimes: Lifetimes, device: DeviceProfile, known: Placements | None
) -> tuple[dict[int, Address], dict[Storage, tuple[int, ...]], int]:
    """The addresses of tensors by number, the pages of each storage, and the most bytes that the arena has in use."""
    addresses: dict[int, Address] = {}
    pages: dict[Storage, tuple[int, ...]] = {}
    alive: dict[Storage, int] = {}
    for storage in Storage:
        tensors = [tensor for tensor in lifetimes if tensor.storage is storage]
        blocks = [Block(tensor.nbytes, *lifetimes[tensor]) for tensor in tensors]
        if storage is Storage.CONSTANTS:
            memory = place_constants([tensor.nbytes for tensor in tensors], device.max_buffer)
        else:
            memory = place(blocks, device.max_buffer, known)
        pages[storage], alive[storage] = memory.pages, most_alive(blocks)
        for tensor, spot in zip(tensors, memory.places, strict=True):
            addresses[tensor.number] = Address(storage, spot.page, spot.offset, tensor.nbytes)
    return addresses, pages, alive[Storage.ARENA]


def _moved(choices: Sequence[Choice], rewritten: Sequence[Rewritten]) -> Iterator[Choice]:
    """The choices with the positions of their commands among those of the plan."""
    positions: dict[int, int] = {origin: position for position, each in enumerate(rewritten) for origin in each.origins}
    for choice in choices:
        commands = {positions[before] for before in choice.commands if before in positions}
        yield replace(choice, commands=tuple(sorted(commands)))
