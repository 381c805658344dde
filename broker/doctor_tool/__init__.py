"""`odradek doctor`: what would keep a broker from running well on this machine."""
