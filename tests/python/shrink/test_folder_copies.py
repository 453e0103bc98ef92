"""What `cfck shrink` copies of a folder beside the model."""

import json

import pytest
from cfck._program.copies import copy_others

MODULES = [{"path": "", "type": "a.Transformer"}, {"path": "2_Dense", "type": "a.Dense"}]


@pytest.fixture
def source(tmp_path):
    for name in ("model.safetensors", "2_Dense/model.safetensors", "checkpoint-5/optimizer.pt"):
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "model" / "checkpoint-5" / "state.json").write_text("{}")
    (tmp_path / "new").mkdir()
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("modules", "is_copied"),
    [
        (json.dumps(MODULES), True),
        (None, False),
        ("[", False),
        ('{"path": 3}', False),
        ('[{"path": 3}, 4]', False),
    ],
)
def test_weights_of_modules_are_copied_and_others_named(source, modules, is_copied):
    if modules is not None:
        (source / "modules.json").write_text(modules)
    new = source.parent / "new"
    left_out = copy_others(str(source), str(new))
    weights = ["2_Dense/model.safetensors", "checkpoint-5/optimizer.pt"]
    assert left_out.weights == weights[is_copied:]
    assert left_out.odd == []
    copied = sorted(str(path.relative_to(new)) for path in new.rglob("*") if path.is_file())
    others = ["checkpoint-5/state.json"] + (["modules.json"] if modules is not None else [])
    assert copied == ["2_Dense/model.safetensors"][: int(is_copied)] + others
