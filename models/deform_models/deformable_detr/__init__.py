"""Deformable DETR of Hugging Face, as packaging sees it."""
