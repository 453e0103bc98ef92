"""What cfck.transformers changes, and how it is put back."""

import importlib
import subprocess
import sys

import cfck
import pytest
import torch
from hf_models import folders_in, make, outputs, transformers

modeling = transformers.modeling_utils
MODEL = modeling.PreTrainedModel


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return folders_in(tmp_path_factory.mktemp("hf"))


@pytest.fixture(autouse=True)
def disabled():
    cfck.transformers.disable()
    yield
    cfck.transformers.disable()


def places():
    """All that might be changed."""
    found = {("module", name): value for name, value in vars(modeling).items()}
    return found | {("class", name): value for name, value in vars(MODEL).items()}


def changed(before, after):
    return {name for (_, name), value in after.items() if before[_, name] is not value}


def test_everything_is_put_back():
    before = places()
    for _ in range(2):
        cfck.transformers.enable()
        cfck.transformers.enable()
        assert cfck.transformers.is_enabled()
        assert before.keys() == places().keys()
        assert changed(before, places()) == {
            "_get_resolved_checkpoint_files", "load_state_dict", "safe_save_file",
            "from_pretrained", "save_pretrained",
        }  # fmt: skip
        cfck.transformers.disable()
        cfck.transformers.disable()
        assert not cfck.transformers.is_enabled()
        assert not changed(before, places())


def test_changes_of_others_stay(folders, monkeypatch):
    source, converted = folders("bert")
    cfck.transformers.enable()
    ours = modeling.load_state_dict
    theirs = lambda *args, **kwargs: ours(*args, **kwargs)  # noqa: E731
    monkeypatch.setattr(modeling, "load_state_dict", theirs)
    transformers.AutoModel.from_pretrained(converted)
    cfck.transformers.disable()
    assert modeling.load_state_dict is theirs
    with pytest.raises(OSError, match="no file named"):
        transformers.AutoModel.from_pretrained(converted)
    transformers.AutoModel.from_pretrained(source)


def test_without_cfck_arguments_are_unknown(folders):
    cfck.transformers.enable()
    call = MODEL.__dict__["from_pretrained"].__func__
    cfck.transformers.disable()
    with pytest.raises(TypeError, match="compressed"):
        call(transformers.BertModel, folders("bert")[0], compressed=True)


class Another:
    """A module whose class of models loads in a way of its own."""

    class PreTrainedModel:
        def from_pretrained(self):
            """Calls nothing that is known."""

        def save_pretrained(self):
            """Likewise."""

        def _load_pretrained_model(self):
            """Likewise."""


@pytest.mark.parametrize("change", [
    lambda patch: patch.delattr(modeling, "_get_resolved_checkpoint_files"),
    lambda patch: patch.setattr(modeling, "load_state_dict", lambda path, device: {}),
    lambda patch: patch.setattr(MODEL, "save_pretrained", Another.PreTrainedModel.save_pretrained),
])  # fmt: skip
def test_versions_that_are_not_known(folders, monkeypatch, change):
    source, converted = folders("bert")
    change(monkeypatch)
    before = places()
    message = (
        f"transformers {transformers.__version__} does not load models as versions "
        f"{cfck.transformers.KNOWN_VERSIONS} do"
    )
    with pytest.raises(cfck.UnsupportedError, match=message):
        cfck.transformers.enable()
    assert not changed(before, places())
    if hasattr(modeling, "_get_resolved_checkpoint_files"):
        model = cfck.transformers.from_pretrained(transformers.BertModel, converted)
        assert torch.equal(outputs(model), outputs(make("bert")))
    with pytest.raises(cfck.UnsupportedError, match=r"cfck.transformers.from_pretrained\(\)"):
        cfck.transformers.enable()


def test_importing_enables():
    importlib.reload(cfck.transformers)
    assert cfck.transformers.is_enabled()


def test_importing_with_a_version_that_is_not_known(folders, monkeypatch):
    monkeypatch.delattr(modeling, "safe_save_file")
    with pytest.warns(UserWarning, match="does not load models as versions") as caught:
        importlib.reload(cfck.transformers)
    assert [warning.category.__name__ for warning in caught] == ["VersionWarning"]
    assert not cfck.transformers.is_enabled()
    model = cfck.transformers.from_pretrained(folders("bert")[1])
    assert torch.equal(outputs(model), outputs(make("bert")))


def test_importing_without_transformers(monkeypatch):
    for name in ("transformers", "transformers.modeling_utils"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install torch transformers"):
        importlib.reload(cfck.transformers)


def test_cfck_alone_imports_nothing_of_it():
    program = "import sys, cfck; print('transformers' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr
