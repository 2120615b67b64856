"""The agents that goalseek knows, one small file each: how each is called, read, paid for and pointed elsewhere."""
