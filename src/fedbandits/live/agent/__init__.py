"""A live agent: the protocol with a journal, a transport and a clock."""
