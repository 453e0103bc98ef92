"""Errors about a tensor name it, once."""

import pytest
from cfck._common.naming import naming
from cfck.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidArgumentError("too long"), "weight `head`: too long"),
        (InvalidArgumentError("`body` is too long", record="body"), "`body` is too long"),
        (FloatingPointError("not finite"), "weight `head`: not finite"),
        (FloatingPointError("`body` is not finite"), "`body` is not finite"),
        (ValueError("other"), "other"),
    ],
)
def test_an_error_without_a_name_gets_one(error, message):
    with pytest.raises(type(error)) as caught, naming("head", "weight"), naming("head", "weight"):
        raise error
    assert str(caught.value) == message
