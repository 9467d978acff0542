"""The live protocol without I/O: messages, ledgers, tickets and the core of an agent."""
