"""Tensors of torch as bare bytes, without a file around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

import torch

from .._common.text import with_article
from .._frameworks.torch_tensors import TorchFramework
from .._options.kinds import MessageOptions, Unpack
from .._options.signatures import chosen, takes
from .message import decode_with, encode_all_with, encode_with

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FRAMEWORK = TorchFramework()


@takes(MessageOptions)
def encode_message(
    tensor: torch.Tensor,
    *,
    out: Buffer | torch.Tensor | Literal["device"] | None = None,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> bytes | int | torch.Tensor:
    """Encodes one tensor as bare bytes, without a file around it (cfck.encode_message).

    Args:
        tensor: of any dtype of files, on any device.
        out: memory for the message, such as a torch.Tensor of uint8 with one dimension: at least
            cfck.max_message_bytes(tensor) bytes, which do not overlap the tensor, on its device or
            on the host. "device": a torch.Tensor of uint8 there is returned.
        options: how to encode it: a dict.

    Returns:
        The message; with memory as ``out`` the number of its bytes there.

    Raises:
        CfckError, TypeError: as cfck.encode_message().
    """
    made: bytes | int | torch.Tensor = encode_with(
        _FRAMEWORK, tensor, out, chosen(MessageOptions, options, fields)
    )
    return made


@overload
def encode_messages(
    tensors: Sequence[torch.Tensor],
    *,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> list[bytes]: ...


@overload
def encode_messages(
    tensors: Sequence[torch.Tensor],
    *,
    out: Literal["device"],
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> list[torch.Tensor]: ...


@takes(MessageOptions)
def encode_messages(
    tensors: Sequence[torch.Tensor],
    *,
    out: Literal["device"] | None = None,
    options: MessageOptions | None = None,
    **fields: Unpack[MessageOptions],
) -> list[bytes] | list[torch.Tensor]:
    """Encodes each of several tensors as a message, as encode_message() does.

    A device makes those of its tensors at once, which takes many small ones hardly longer than a
    large one.

    Args:
        tensors: of any dtypes of files, on any devices.
        out: "device": tensors of uint8 on the devices of the tensors are returned, of which many
            share memory. Otherwise the messages are bytes.
        options: how to encode them: a dict.

    Returns:
        The messages, in the order of the tensors.

    Raises:
        CfckError, TypeError: as encode_message().
    """
    if isinstance(tensors, (torch.Tensor, Mapping, str)):
        raise TypeError(f"tensors is a list of tensors, not {with_article(type(tensors).__name__)}")
    chosen_options = chosen(MessageOptions, options, fields)
    return encode_all_with(_FRAMEWORK, list(tensors), out, chosen_options)


def decode_message(data: Buffer | torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Verifies and decodes what encode_message() made, of whichever library.

    Args:
        data: the message and nothing else: bytes, anything with the buffer protocol, or a
            torch.Tensor of uint8 with one dimension.
        out: a tensor of the same dtype and shape on any device, to be filled and returned.

    Returns:
        ``out``, or a new tensor of the host.

    Raises:
        CfckError: as cfck.decode_message().
    """
    return decode_with(_FRAMEWORK, data, out)
