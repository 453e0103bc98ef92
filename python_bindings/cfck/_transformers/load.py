"""Models of transformers that are made and filled here, by what it promises to its callers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from .._common.near import listed
from .._frameworks.torch_tensors import TorchFramework, dtype_of
from .._io.archive import Archive
from .._streaming.convert import convert
from ..errors import InvalidArgumentError, UnsupportedError
from .installed import modeling, takes_dtype, transformers, unknown_part
from .lazy import Weights
from .weights import HUB_ARGUMENTS, Place, find_weights

_FRAMEWORK = TorchFramework()
# Arguments of from_pretrained() that change nothing where weights stay packed.
_WITHOUT_EFFECT = (
    "_commit_hash",
    "_fast_init",
    "_from_auto",
    "_from_pipeline",
    "adapter_kwargs",
    "adapter_name",
    "code_revision",
    "low_cpu_mem_usage",
    "trust_remote_code",
    "use_safetensors",
    "weights_only",
)
# Arguments that need all values while the model is loaded.
_NOT_PACKED = (
    "distributed_config",
    "gguf_file",
    "key_mapping",
    "max_memory",
    "offload_folder",
    "output_loading_info",
    "quantization_config",
    "state_dict",
    "tp_plan",
)


@dataclasses.dataclass
class _Call:
    """A call of from_pretrained().

    Attributes:
        cls: a class of models, one of transformers' Auto classes, or None: as the folder says.
        path: the folder, or the name of a repository.
        args: for the constructor of the model, behind the configuration.
        kwargs: those that are left.
        hub: where in the hub ``path`` is.
        variant: of the weights.
        config: of the model.
    """

    cls: Any
    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    hub: dict[str, Any]
    variant: str | None
    config: Any = None

    @classmethod
    def of(cls, kind: Any, path: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        """Reads the configuration, and finds the class if there is none."""
        rest = dict(kwargs)
        hub = {name: rest.pop(name) for name in HUB_ARGUMENTS if name in rest}
        call = cls(kind, os.fspath(path), args, rest, hub, rest.pop("variant", None))
        call.config = call._read_config()
        if call.cls is None:
            named = [getattr(transformers(), name, None) for name in call._architectures()]
            call.cls = next((c for c in named if c is not None), transformers().AutoModel)
        if not isinstance(call.cls, type) or not issubclass(call.cls, torch.nn.Module):
            call.cls = call._found_by(call.cls)
        return call

    def _architectures(self) -> list[str]:
        return getattr(self.config, "architectures", None) or []

    def _found_by(self, auto: Any) -> Any:
        """The class of models that one of transformers' Auto classes has for the configuration."""
        found = getattr(auto, "_model_mapping", {}).get(type(self.config), None)
        if found is None:
            # The error of transformers, which names what there is, or a class of somebody's own.
            with torch.device("meta"):
                return type(auto.from_config(self.config))
        if not isinstance(found, tuple | list):
            return found
        return next((c for c in found if c.__name__ in self._architectures()), found[0])

    def _read_config(self) -> Any:
        library = transformers()
        config = self.kwargs.pop("config", None)
        if isinstance(config, library.PretrainedConfig):
            return config
        reader = getattr(self.cls, "config_class", None) or library.AutoConfig
        # A dtype is an argument of the model here, and not of its configuration.
        dtypes: dict[str, Any] = {
            n: self.kwargs.pop(n) for n in ("dtype", "torch_dtype") if n in self.kwargs
        }
        found, self.kwargs = reader.from_pretrained(
            self.path if config is None else config,
            return_unused_kwargs=True,
            **self.hub,
            **self.kwargs,
        )
        self.kwargs |= dtypes
        return found

    def weights(self) -> str:
        """The file with the weights."""
        named = getattr(self.config, "transformers_weights", None)
        use_safetensors = self.kwargs.get("use_safetensors")
        return find_weights(Place(self.path, self.variant, named, self.hub, use_safetensors))

    def finish(self, model: Any) -> None:
        """Sets what transformers takes from the folder beside configuration and weights."""
        model.name_or_path = self.path
        model.config.name_or_path = self.path
        if self.kwargs.get("generation_config") is None and _can_generate(model):
            with contextlib.suppress(OSError):
                model.generation_config = transformers().GenerationConfig.from_pretrained(
                    self.path, **self.hub
                )


def load(kind: Any, path: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A model with its values, through the argument state_dict of from_pretrained().

    Returns:
        The model, and what was found while it was loaded if ``output_loading_info`` is given.
    """
    call = _Call.of(kind, path, args, kwargs)
    weights = Weights(call.weights()).start()
    # Code that is not known may look at tensors in other ways than by indexing them.
    weights.was_read = unknown_part(modeling()) is None
    tensors: Mapping[str, Any] = weights.lazy() if weights.was_read else weights.decoded()
    given = _with_dtype_name(call.kwargs)
    result = call.cls.from_pretrained(
        None, *call.args, config=call.config, state_dict=tensors, **given
    )
    model = result[0] if isinstance(result, tuple) else result
    refuse_other_model(model, weights)
    call.finish(model)
    return result


def _with_dtype_name(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the name of dtype that this version of transformers has."""
    given = dict(kwargs)
    wanted, other = ("dtype", "torch_dtype")[:: 1 if takes_dtype() else -1]
    if other in given:
        dtype = given.pop(other)
        given.setdefault(wanted, dtype)
    return given


def refuse_other_model(model: torch.nn.Module, weights: Weights) -> None:
    """Raises InvalidArgumentError where a model has got no tensor of its file at all.

    transformers warns of it, and gives all parameters random values.
    """
    names = weights.archive.names()
    if not weights.was_read or weights.n_decoded or not names:
        return
    if any(parameter.is_meta for parameter in model.parameters()):
        return  # another process has the values
    raise _of_another_model(model, weights)


def _of_another_model(model: torch.nn.Module, weights: Weights) -> InvalidArgumentError:
    own = list(model.state_dict(keep_vars=True))
    return InvalidArgumentError(
        f"{weights.path} has no tensor that {type(model).__name__} has: its names are "
        f"{_some(weights.archive.names())}, those of the model {_some(own)}; its config.json may "
        "be that of another model"
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def check_compressed(given: object) -> None:
    """Raises TypeError for what is neither True nor False."""
    if not isinstance(given, bool):
        raise TypeError(f"compressed is a bool, not {type(given).__name__}")


def load_packed(kind: Any, path: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A model whose large weights stay in the file, and are decoded when their layers run."""
    for name in _NOT_PACKED:
        if kwargs.get(name):
            raise UnsupportedError(f"{name} cannot be given together with compressed=True")
    call = _Call.of(kind, path, args, kwargs)
    if getattr(call.config, "quantization_config", None) is not None:
        raise UnsupportedError("compressed=True is not for models that transformers quantises")
    device = _one_device(call.kwargs.pop("device_map", None))
    generation_config = call.kwargs.pop("generation_config", None)
    dtypes = [call.kwargs.pop(name, None) for name in ("dtype", "torch_dtype")]
    weights = Weights(call.weights())
    for name in _WITHOUT_EFFECT:
        call.kwargs.pop(name, None)
    dtype = _dtype(next((d for d in dtypes if d is not None), None), call.config, weights)
    model = _without_values(call, dtype)
    archive = _as_named(weights.archive, model)
    if not set(archive.names()) & set(model.state_dict(keep_vars=True)):
        raise _of_another_model(model, weights)
    unexpected = convert(model, archive, _FRAMEWORK, strict=False, prefetch=True)
    _report_unexpected(unexpected, model, weights.path)
    model.eval()
    call.finish(model)
    if generation_config is not None:
        model.generation_config = generation_config
    return model if device is None else model.to(device)


def _report_unexpected(names: Iterable[str], model: Any, path: str) -> None:
    """Logs where transformers logs what a file has beyond the model, on its rules."""
    ignored = getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()
    left = [name for name in names if not any(re.search(pattern, name) for pattern in ignored)]
    if left:
        log = transformers().utils.logging.get_logger("transformers.modeling_utils")
        log.warning(
            f"{path} has tensors that {type(model).__name__} does not have, and which are not "
            f"used: {listed(left)}"
        )


def _one_device(device_map: Any) -> torch.device | None:
    """The device of a device map, which has to be a single one."""
    if device_map is None:
        return None
    if isinstance(device_map, Mapping):
        places = set(device_map.values())
        if len(places) == 1 and "disk" not in places:
            device_map = places.pop()
    if device_map == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device_map)
    except (RuntimeError, TypeError):
        raise UnsupportedError(
            f"device_map={device_map!r}: with compressed=True a model is on one device"
        ) from None


def _dtype(given: Any, config: Any, weights: Weights) -> torch.dtype:
    """The dtype of the model, on the rule of from_pretrained()."""
    if given is None and not _is_auto_by_default():
        return torch.get_default_dtype()
    if given is None or given == "auto":
        # Where dtype is the name, reading the other one is reported as deprecated.
        given = getattr(config, "dtype" if takes_dtype() else "torch_dtype", None)
    if isinstance(given, str):
        given = getattr(torch, given, None)
    if given is None:
        dtypes = [dtype_of(weights.archive.record(name).dtype) for name in weights.archive.names()]
        given = next((dtype for dtype in dtypes if dtype.is_floating_point), torch.float32)
    if not isinstance(given, torch.dtype) or not given.is_floating_point:
        raise InvalidArgumentError(f"{given!r} is no dtype of floats")
    return given


def _is_auto_by_default() -> bool:
    return int(str(transformers().__version__).split(".")[0]) >= 5


def _without_values(call: _Call, dtype: torch.dtype) -> Any:
    """The model, with its parameters on the device meta, and its buffers on the host."""
    configs = [call.config]
    configs += [
        getattr(call.config, name, None) for name in getattr(call.config, "sub_configs", ())
    ]
    for config in configs:
        if config is not None:
            setattr(config, "dtype" if takes_dtype() else "torch_dtype", dtype)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with _parameters_on_meta():
            model = call.cls(call.config, *call.args, **call.kwargs)
    finally:
        torch.set_default_dtype(before)
    model.tie_weights()
    kept = [name for name in ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict")]
    if dtype != torch.float32 and any(getattr(model, name, None) for name in kept):
        raise UnsupportedError(
            f"{type(model).__name__} keeps some layers in float32: compressed=True takes it with "
            "dtype=torch.float32 alone"
        )
    return model


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """In here parameters that this thread makes have no values, and take no time to be set."""
    thread = threading.get_ident()

    def to_meta(module: torch.nn.Module, name: str, parameter: Any) -> Any:
        if threading.get_ident() != thread or parameter is None or parameter.is_meta:
            return None
        made = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        made.__dict__.update(parameter.__dict__)
        return made

    hook = torch.nn.modules.module.register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        hook.remove()


def _as_named(archive: Archive, model: Any) -> Archive:
    """The archive under the names of the model, which may have a prefix more or less."""
    own = set(model.state_dict(keep_vars=True))
    prefix = getattr(model, "base_model_prefix", "") + "."
    renamed = {}
    for name in archive.names():
        candidates = (name, name.removeprefix(prefix), prefix + name)
        renamed[next((c for c in candidates if c in own), name)] = name
    return archive.renamed(renamed)


def _can_generate(model: Any) -> bool:
    return hasattr(model, "can_generate") and bool(model.can_generate())
