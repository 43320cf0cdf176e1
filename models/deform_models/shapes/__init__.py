"""A small Mask2Former that segments synthetic scenes of coloured shapes on textured grounds.

Modules: ``scenes`` draws a scene and its exact panoptic truth from an integer seed, ``coco`` holds
the categories and the COCO panoptic format, ``model`` the architecture, ``train`` the training
runs and ``evaluate`` the panoptic quality on held-out scenes.
"""
