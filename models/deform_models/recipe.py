"""What packaging has to know about an architecture; one recipe for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn


class Recipe(ABC):
    """How one architecture is loaded, exported and described.

    A recipe holds no state. `config` is always the Hugging Face configuration object of the
    checkpoint at hand.
    """

    architecture: str
    """Name in package.json, and `model_type` in config.json."""

    model_class: str
    """The class of `transformers` that reads the checkpoint."""

    processor_types: frozenset[str]
    """Values of `image_processor_type` whose defaults this architecture's processor has."""

    takes_pixel_mask: bool
    """Whether the network takes `pixel_mask [B, H, W]` int64 beside `pixel_values`."""

    default_size_divisor: int
    """What an unset `size_divisor` means in preprocessor_config.json; 0 for none."""

    output_names: tuple[str, ...]
    """Names of the network's outputs, in order."""

    @abstractmethod
    def check_config(self, config: Any) -> None:
        """Raises PackagingError, naming the field, for a variant that can't be packaged."""

    @abstractmethod
    def network(self, model: nn.Module) -> nn.Module:
        """A module around `model` that takes and returns plain tensors, as `output_names` says."""

    @abstractmethod
    def operator_calls(self, config: Any) -> int:
        """How many deformable attentions one run of the network makes."""

    @abstractmethod
    def num_queries(self, config: Any) -> int:
        """Queries of one picture."""

    @abstractmethod
    def logits_per_query(self, config: Any) -> int:
        """Class logits of one query, "no object" included where there is one."""

    def query_order_is_free(self, config: Any) -> bool:
        """Whether queries may come out in another order and mean the same."""
        return False

    @abstractmethod
    def tasks(self, panoptic: bool) -> list[str]:
        """Tasks of package.json; `panoptic`: every label is known as thing or stuff."""

    def tracing(self) -> AbstractContextManager[Any]:
        """A context to export in, for what an architecture's own code keeps from tracing well."""
        return nullcontext()

    def rounding_trials(
        self, model: nn.Module, inputs: tuple[Tensor, ...], noise: float, trials: int
    ) -> list[tuple[Tensor, ...]]:
        """Outputs of `model` with the decisions that it takes at a threshold disturbed.

        Each trial adds seeded noise of at most `noise` to the numbers that are compared with a
        threshold inside the network, and nowhere else. Empty for an architecture that takes no
        such decisions.
        """
        return []
