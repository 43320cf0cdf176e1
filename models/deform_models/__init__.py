"""Segmentation and detection models of deformserve: packaging, and the shapes model."""
