"""Embedders: a contract, the models that keep it, and where their vectors are remembered."""
