"""Weights that travel from a trainer to samplers through a folder (docs/sync.md).

::

    with cfck.sync.Publisher("/shared/run") as publisher:         # the trainer
        publisher.publish(model.state_dict())

    follower = cfck.sync.Follower("/shared/run")                  # each sampler
    version = follower.poll(model)                                # None: nothing is new
"""

from __future__ import annotations

from ._sync.follower import Follower, FollowerStatus, OnTensors
from ._sync.publisher import Publisher
from ._sync.warning import SyncWarning

__all__ = ["Follower", "FollowerStatus", "OnTensors", "Publisher", "SyncWarning"]
