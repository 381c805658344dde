"""What the HTTP ports have in common: who may ask under which name, bodies, and limits on connections."""
