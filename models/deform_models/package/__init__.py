"""From a Hugging Face folder to a package that deform-server serves."""
