"""A model of transformers, patched, behind one class."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar, Self

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from deform_ops.registry import Backend

__all__ = ["PatchedModel"]


class PatchedModel(nn.Module):
    """Holds a model of transformers as ``model`` and calls it; subclasses say which and how.

    Args:
        model: of the subclass's ``architecture``; patched in place.
        backend: who computes; None takes the policy's choice.
    """

    architecture: ClassVar[type[PreTrainedModel]]
    default_checkpoint: ClassVar[str]

    def __init__(self, model: PreTrainedModel, *, backend: Backend | None = None) -> None:
        """Patches ``model`` and holds it."""
        super().__init__()
        self.patch(model, backend=backend)
        self.model = model
        self.backend = backend

    @staticmethod
    def patch(model: nn.Module, *, backend: Backend | None = None, strict: bool = True) -> int:
        """Replaces the modules of ``model`` that the operators run; returns how many."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(
        cls,
        path_or_id: str | PathLike[str] | None = None,
        *,
        backend: Backend | None = None,
        **options: Any,
    ) -> Self:
        """Loads a checkpoint and patches it.

        Args:
            path_or_id: a folder as ``save_pretrained`` writes it, or a name on the Hugging Face
                hub; None is ``default_checkpoint``.
            backend: who computes; None takes the policy's choice.
            options: handed on to transformers: ``revision``, ``cache_dir``, ``dtype``, …

        Raises:
            OSError: if there is no such checkpoint.
        """
        checkpoint = cls.default_checkpoint if path_or_id is None else path_or_id
        return cls(cls.architecture.from_pretrained(checkpoint, **options), backend=backend)

    @property
    def config(self) -> PretrainedConfig:
        """The model's configuration."""
        return self.model.config
