"""The common part of the HTTP ports: who may ask under which name, bodies, and limits on connections."""
