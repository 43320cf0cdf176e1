"""Mask2Former of Hugging Face, as packaging sees it."""
