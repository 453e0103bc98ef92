"""Options are judged before a call begins what takes long."""

import cfck
import cfck.torch
import pytest
import torch


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"quality": "hgh"}, ValueError, 'unknown quality "hgh"'),
        ({"rules": {"*": {"nmse": "x"}}}, ValueError, "is not an NMSE"),
        ({"threads": -1}, ValueError, "threads is a number"),
        ({"verify": "yes"}, TypeError, "verify is a bool, not str"),
        ({"fsync": 1}, TypeError, "fsync is a bool, not int"),
        ({"progress": "yes"}, TypeError, "progress is called as"),
        ({"metadata": {"a": 1}}, TypeError, "metadata is a dict of str to str"),
        ({"qualty": "high"}, TypeError, "'qualty'; did you mean quality"),
    ],
    ids=str,
)
def test_options_are_judged_before_the_model_runs(tmp_path, monkeypatch, options, error, message):
    def fail(*_, **__):
        raise AssertionError("calibrated")

    monkeypatch.setattr("cfck._calibration.automatic.calibrate", fail)
    model = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100))
    given = {"quality": "high", "model": model, **options}
    with pytest.raises(error, match=message):
        cfck.torch.save_file(model.state_dict(), tmp_path / "m.cfck", **given)
    if not {"verify", "fsync"} & set(options):
        with pytest.raises(error, match=message):
            cfck.torch.save(model.state_dict(), **given)
    with pytest.raises(cfck.MissingFileError, match="there is no folder .*no to write"):
        path = tmp_path / "no" / "m.cfck"
        cfck.torch.save_file(model.state_dict(), path, model=model, quality="high")
    assert list(tmp_path.iterdir()) == []
