"""Configurations: TOML in, problem, network, gossip and algorithm out."""

from .building import build, choose, load_config, parse_network
from .experiment import ConfigError, Experiment
from .reading import read_config

__all__ = [
    "ConfigError",
    "Experiment",
    "build",
    "choose",
    "load_config",
    "parse_network",
    "read_config",
]
