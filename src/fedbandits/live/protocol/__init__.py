"""The live protocol without I/O: messages, ledgers, tickets and the state of a member."""
