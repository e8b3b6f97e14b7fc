"""Derived indexes of published passages: a contract and the backends that keep it."""
