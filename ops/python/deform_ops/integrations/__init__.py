"""Operators put into other libraries' models."""
