"""The one error that packaging raises for what its user can put right."""

from __future__ import annotations


class PackagingError(Exception):
    """Something in the checkpoint, the options or the machine stands in the way of a package.

    The message names the thing (a file, a field, a tensor, an option), says what it is and what
    it would have to be. Any other exception that leaves this code is a defect of the code.
    """
