"""Names that options take are those of the library."""

import typing

import cfck
import pytest
from cfck._options.kinds import TensorOptions
from conftest import weights


def test_types_name_the_codecs_of_the_library():
    names = list(typing.get_args(typing.get_type_hints(TensorOptions)["codec"]))
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    with pytest.raises(ValueError, match=f'unknown codec "zip"; it may be {listed}'):
        cfck.compress(weights(8, 8), codec="zip")
