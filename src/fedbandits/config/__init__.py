"""Configurations: TOML in, problem, network, gossip and algorithm out."""

from .building import build, choose, parse_network
from .document import Document, load_config, read_document
from .experiment import ConfigError, Experiment
from .reading import read_config

__all__ = [
    "ConfigError",
    "Document",
    "Experiment",
    "build",
    "choose",
    "load_config",
    "parse_network",
    "read_config",
    "read_document",
]
