# SPDX-License-Identifier: MIT
"""Writes the types and texts of a module that pybind11 has made into a .pyi file, for editors and type checkers. A module with
submodules gets a folder, OUT, with a file for each.

Usage: feedline_stubs.py MODULE.so OUT.pyi
"""
import ast
import importlib.util
import inspect
import os
import re
import sys
import textwrap


PLAIN = {"capsule": "object", "function": "Callable[..., Any]", "dict": "Dict[str, Any]", "list": "List[Any]", "tuple": "Tuple[Any, ...]",
         "*args": "*args: Any", "**kwargs": "**kwargs: Any"}


def text_of(doc, indent):
    text = (doc or "").strip().replace("\\", "\\\\").replace('"""', r'\"\"\"')
    if not text:
        return ""
    if text.endswith('"'):
        text += " "  # a fourth quotation mark would end it too early
    return textwrap.indent(f'"""{text}"""', indent, lambda line: line.strip() != "") + "\n"


def function(name, doc, module, indent, decorator=""):
    """pybind11's text of a function, or of each of its overloads: a signature, an empty line and what the user wrote."""
    begin = re.escape(name) + r"\("
    parts = re.split(rf"^(?:\d+\. )(?={begin})", doc or "", flags=re.M)
    overloads = parts[1:] if len(parts) > 1 else parts
    if len(parts) > 1:
        decorator = "@overload\n"
    written = ""
    for part in overloads:
        signature, _, text = part.partition("\n")
        signature = re.sub(rf"\b{re.escape(module)}\.", "", signature)
        signature = re.sub(r"numpy\.ndarray(?:\[([\w.]+)[^]]*\])?", lambda m: f"numpy.typing.NDArray[{m[1] or 'Any'}]", signature)
        signature = re.sub(r"(?<=[ (])(capsule|dict|function|list|tuple|\*\*?\w+)(?=[,)]|$)", lambda m: PLAIN[m[0]], signature)
        signature = re.sub(r"\b(float|int|bool|str)\[\d+\]", r"\1", signature)  # the length of an array
        signature = re.sub(r"\bos\.PathLike\b(?!\[)", "Union[str, os.PathLike[str]]", signature)  # as pybind11 takes it
        taken, arrow, given = signature.rpartition(" -> ")
        signature = re.sub(r"\bList\[", "Sequence[", taken) + arrow + given
        signature = re.sub(r"\((self|arg0): \w+", "(self", signature) if indent else signature
        try:
            signature = with_optional(signature)
        except SyntaxError:  # a C++ type that Python doesn't know
            signature = f"{name}({'self, ' if indent else ''}*args: Any, **kwargs: Any) -> Any"
        body = text_of(text, indent + "    ") or f"{indent}    ...\n"
        written += textwrap.indent(decorator, indent) + f"{indent}def {signature}:\n{body}"
    return written


def with_optional(signature):
    """Says of parameters that are None by default that they may be. Raises SyntaxError if it isn't a signature of Python."""
    parsed = ast.parse(f"def {signature}: ...").body[0].args
    if not signature.isascii():  # columns count bytes
        return signature
    parameters = parsed.posonlyargs + parsed.args
    defaults = [*zip(parameters[len(parameters) - len(parsed.defaults):], parsed.defaults), *zip(parsed.kwonlyargs, parsed.kw_defaults)]
    for parameter, default in reversed(defaults):
        kind = parameter.annotation
        if kind and isinstance(default, ast.Constant) and default.value is None:
            begin, end = kind.col_offset - len("def "), kind.end_col_offset - len("def ")
            if signature[begin:end] not in ("Any", "None", "object") and not signature[begin:end].startswith("Optional["):
                signature = f"{signature[:begin]}Optional[{signature[begin:end]}]{signature[end:]}"
    return signature


def attribute(name, value, module, indent):
    if isinstance(value, property):
        doc = getattr(value.fget, "__doc__", None) or ""
        signature, _, text = doc.partition("\n")
        doc = name + (signature if "->" in signature else "(self: object) -> Any") + "\n" + (value.__doc__ or text)
        return function(name, doc, module, indent, "@property\n")
    if inspect.isroutine(value) or type(value).__name__ == "instancemethod":
        return function(name, value.__doc__, module, indent)
    return f"{indent}{name}: {type(value).__name__}\n"


def class_of(name, cls, module):
    base = cls.__bases__[0]
    known = base.__module__ in ("builtins", module) and base is not object
    written = f"class {name}({base.__name__}):\n" if known else f"class {name}:\n"
    begin = len(written)
    written += text_of(cls.__doc__, "    ")
    for member, kind in vars(cls).get("__annotations__", {}).items():
        written += f"    {member}: {kind}\n"
    for member, value in vars(cls).items():
        signature = re.match(rf"{re.escape(member)}\(", value.__doc__ or "") if callable(value) else None
        if signature or not member.startswith("_"):
            written += "\n" + attribute(member, value, module, "    ")
    return written if len(written) > begin else written + "    ...\n"


def stubs(module):
    name = module.__name__
    written = "".join(
        "\n\n" + class_of(key, value, name) if inspect.isclass(value) else "\n\n" + attribute(key, value, name, "")
        for key, value in vars(module).items()
        if (not key.startswith("_") or key == "__version__") and not inspect.ismodule(value))
    needed = [t for t in ("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Optional", "Sequence", "Set", "Tuple", "Union",
                          "overload") if re.search(rf"\b{t}\b", written)]
    imports = f"from typing import {', '.join(needed)}\n" if needed else ""
    for package in ("datetime", "numpy", "numpy.typing", "os"):
        if re.search(rf"\b{package}\.\w", written):
            imports += f"import {package}\n"
    root, _, part = name.rpartition(".")
    others = {} if not root else {m[0]: m for m in re.finditer(rf"\b{re.escape(root)}\.(\w+)\.(\w+)", written) if m[1] != part}
    for whole, other in others.items():  # classes of other parts
        written = re.sub(rf"\b{re.escape(whole)}\b", other[2], written)
        imports += f"from .{other[1]} import {other[2]}\n"
    for key, value in vars(module).items():
        if inspect.ismodule(value):
            imports += f"from . import {key} as {key}\n"
    return text_of(module.__doc__, "") + imports + written


def main():
    path, out = sys.argv[1:]
    name = re.sub(r"\..*", "", re.sub(r".*/", "", path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = {key: value for key, value in vars(module).items() if inspect.ismodule(value)}
    folder = out[:-len(".pyi")]
    if parts:
        os.makedirs(folder, exist_ok=True)
        out = folder + "/__init__.pyi"
    write(out, module)
    for key, part in parts.items():
        write(f"{folder}/{key}.pyi", part)


def write(path, module):
    written = stubs(module)
    ast.parse(written)
    with open(path, "w", encoding="utf-8") as file:
        file.write(written)


main()
