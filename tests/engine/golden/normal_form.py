"""The normal form of a lowered program: its operations without names, places or call structure.

Two programs with one normal form do the same operations on the same arguments in the same order.
XLA inlines calls itself before it optimises, so it makes one executable of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax  # noqa: F401  # it registers the dialects
from jaxlib.mlir import ir
from jaxlib.triton import dialect as triton

_KERNEL = "__gpu$xla.gpu.triton"
"""The target of a custom call that carries a Triton kernel as MLIR bytecode."""


def normal_form(lowered: Any) -> str:
    """Return the text of a lowered program, followed by that of its Triton kernels.

    - Source locations are left out, and so are the names of modules, functions and results.
    - Calls are inlined, so that it makes no difference which lines form a function.
    - On one device shardings are left out: there they say nothing.
    - Kernels are decoded from bytecode into separate text.
    """
    module = lowered.compiler_ir("stablehlo")
    kernels: list[str] = []
    with module.context:
        main = _inlined(module)
        if _devices(module) == 1:
            _drop_shardings(module)
        for op in _every(main):
            if op.name == "stablehlo.custom_call" and _target(op) == _KERNEL:
                _move_kernel(op, kernels)
        main.attributes["arg_attrs"] = _without(main.attributes["arg_attrs"], _devices(module))
        main.attributes["res_attrs"] = _without(main.attributes["res_attrs"], _devices(module))
        module.operation.attributes["sym_name"] = ir.StringAttr.get("program")
        return "\n".join([_text(module), *kernels])


def _text(module: Any) -> str:
    text: str = module.operation.get_asm(enable_debug_info=False, large_elements_limit=None)
    return text


def _every(op: Any) -> Iterator[Any]:
    """The operations inside an operation, at any depth; a list of each block is made first."""
    for region in op.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                yield inner.operation
                yield from _every(inner.operation)


def _inlined(module: Any) -> Any:
    """Inline every call, drop the functions that were called, and return the main function."""
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    main = functions.pop("main")
    while calls := [op for op in _every(main) if op.name == "func.call"]:
        for call in calls:
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            _inline(call, functions[name].clone(ir.InsertionPoint(functions[name])))
    for function in functions.values():
        function.erase()
    return main


def _inline(call: Any, callee: Any) -> None:
    """Put the operations of a function, which no other call uses, in place of a call."""
    body = callee.regions[0].blocks[0]
    for argument, value in zip(list(body.arguments), list(call.operands), strict=True):
        argument.replace_all_uses_with(value)
    *operations, end = list(body.operations)
    for op in operations:
        op.operation.move_before(call)
    for result, value in zip(list(call.results), list(end.operation.operands), strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    callee.erase()


def _devices(module: Any) -> int:
    return int(ir.IntegerAttr(module.operation.attributes["mhlo.num_partitions"]).value)


def _drop_shardings(module: Any) -> None:
    for op in list(_every(module.operation)):
        if op.name == "sdy.sharding_constraint":
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    for op in list(module.body.operations):
        if op.operation.name == "sdy.mesh":
            op.operation.erase()


def _without(attributes: Any, devices: int) -> Any:
    """Attributes of arguments or results without names, and on one device without shardings."""
    dropped = {"jax.result_info", "jax.arg_info"} | ({"sdy.sharding"} if devices == 1 else set())
    return ir.ArrayAttr.get(
        [
            ir.DictAttr.get({k: v for k, v in _entries(each).items() if k not in dropped})
            for each in ir.ArrayAttr(attributes)
        ]
    )


def _entries(attributes: Any) -> dict[str, Any]:
    entries: Any = ir.DictAttr(attributes)
    return {each.name: each.attr for each in entries}


def _target(op: Any) -> str:
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)


def _move_kernel(op: Any, kernels: list[str]) -> None:
    """Decode the kernel of a custom call, and leave its number there."""
    config = _entries(op.attributes["mhlo.backend_config"])
    del config["name"]
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        triton.register_dialect(context)
        kernel = ir.Module.parse(ir.StringAttr(config.pop("ir")).value_bytes)
        kernel.operation.attributes["sym_name"] = ir.StringAttr.get("kernel")
        for function in kernel.body.operations:
            function.operation.attributes["sym_name"] = ir.StringAttr.get("kernel")
        text = _text(kernel)
    if text not in kernels:
        kernels.append(text)
    config["kernel"] = ir.StringAttr.get(str(kernels.index(text)))
    op.attributes["mhlo.backend_config"] = ir.DictAttr.get(config)
