"""Forms of the gossip matrix: how the engine averages messages over neighbours."""
